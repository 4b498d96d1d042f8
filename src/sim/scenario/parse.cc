#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>

#include "base/units.h"
#include "sim/scenario/scenario.h"

namespace moor::sim {

namespace {

enum class Word : std::uint8_t { volume, node, server, ticket, number, duration, text };

struct Option {
  std::string_view name;
  Word kind;
};

// One form of a statement or of a condition: its fixed words and its places, in order.
struct Form {
  std::string_view usage;  // as people write it: capitals are places
  std::vector<Option> options = {};
};

const std::vector<Form>& statement_forms() {
  static const std::vector<Form> forms = {
      {"cluster",
       {{"nodes", Word::number},
        {"servers", Word::number},
        {"seed", Word::number},
        {"store", Word::text},
        {"moods", Word::text}}},
      {"volume VOLUME",
       {{"replicas", Word::number}, {"mode", Word::text}, {"nodes", Word::text}, {"migratable", Word::text}}},
      {"create VOLUME", {{"replicas", Word::number}, {"mode", Word::text}, {"migratable", Word::text}}},
      {"setting TEXT TEXT"},
      {"want VOLUME on NODE",
       {{"as", Word::ticket},
        {"type", Word::text},
        {"frontend", Word::text},
        {"owner", Word::text},
        {"expires", Word::duration}}},
      {"reserve VOLUME", {{"as", Word::ticket}, {"type", Word::text}, {"owner", Word::text}}},
      {"drop VOLUME TICKET"},
      {"retarget VOLUME TICKET to NODE"},
      {"activate VOLUME TICKET"},
      {"delete VOLUME"},
      {"count VOLUME"},
      {"writer VOLUME on NODE", {{"as", Word::ticket}}},
      {"reader VOLUME on NODE", {{"as", Word::ticket}}},
      {"no-writer VOLUME on NODE", {{"as", Word::ticket}}},
      {"crash server SERVER", {{"for", Word::duration}}},
      {"crash agent NODE", {{"for", Word::duration}}},
      {"hand-over VOLUME from NODE to NODE", {{"as", Word::ticket}, {"then", Word::ticket}}},
      {"sweep-begin"},
      {"sweep-end"},
      {"crash engine VOLUME"},
      {"crash engine VOLUME on NODE"},
      {"crash device VOLUME"},
      {"crash device VOLUME on NODE"},
      {"crash replica VOLUME NUMBER"},
      {"crash replicas VOLUME"},
      {"power node NODE", {{"for", Word::duration}}},
      {"power server SERVER", {{"for", Word::duration}}},
      {"power room", {{"for", Word::duration}}},
      {"pause server SERVER", {{"for", Word::duration}}},
      {"pause agent NODE", {{"for", Word::duration}}},
      {"pause engine VOLUME", {{"for", Word::duration}}},
      {"pause engine VOLUME on NODE", {{"for", Word::duration}}},
      {"pause replica VOLUME NUMBER", {{"for", Word::duration}}},
      {"cut NODE", {{"for", Word::duration}}},
      {"cut-out NODE", {{"for", Word::duration}}},
      {"cut-in NODE", {{"for", Word::duration}}},
      {"cut-pair NODE NODE", {{"for", Word::duration}}},
      {"cut-store SERVER", {{"for", Word::duration}}},
      {"lossy NODE NUMBER", {{"for", Word::duration}}},
      {"slow NODE NUMBER", {{"for", Word::duration}}},
      {"late NODE NUMBER", {{"for", Word::duration}}},
      {"stray-hello VOLUME NUMBER TEXT"},
      {"rot VOLUME NUMBER"},
      {"lose-data VOLUME NUMBER"},
      {"twin NODE", {{"for", Word::duration}}},
      {"lose-answers NODE", {{"for", Word::duration}}},
      {"cut-watches", {{"for", Word::duration}}},
      {"compact"},
      {"store-down", {{"for", Word::duration}}},
      {"step-clock NODE DURATION"},
      {"full-disk NODE", {{"for", Word::duration}}},
      {"failing-sync VOLUME NUMBER"},
      {"slow-disk NODE", {{"for", Word::duration}}},
      {"old-boot NODE"},
      {"late-commands NODE", {{"for", Word::duration}}},
      {"fault TEXT NUMBER", {{"for", Word::duration}, {"with", Word::text}, {"process", Word::text}}},
      {"settle", {{"within", Word::duration}}},
      {"wait DURATION"},
  };
  return forms;
}

const std::vector<Form>& condition_forms() {
  static const std::vector<Form> forms = {
      {"attached VOLUME"},
      {"attached VOLUME NODE"},
      {"detached VOLUME"},
      {"gone VOLUME"},
      {"state VOLUME TEXT"},
      {"robustness VOLUME TEXT"},
      {"given VOLUME NODE"},  // spec.nodeID
      {"satisfied VOLUME TICKET"},
      {"waiting VOLUME TICKET"},
      {"blocked VOLUME TICKET TEXT"},
      {"retired VOLUME TICKET"},
      {"moving VOLUME"},
      {"move VOLUME TEXT"},
      {"member VOLUME NUMBER TEXT"},
      {"epoch VOLUME NUMBER"},
      {"restarts VOLUME NUMBER"},
      {"proof VOLUME TEXT"},
      {"engine VOLUME NODE"},
      {"engines VOLUME NUMBER"},
      {"device VOLUME NODE"},
      {"written VOLUME NUMBER"},
      {"lives VOLUME NUMBER"},
      {"ready NODE"},
      {"leader"},
      {"at-most-one-writer VOLUME"},
  };
  return forms;
}

std::vector<std::string> split(std::string_view line) {
  std::vector<std::string> words;
  std::size_t at = 0;
  while (at < line.size()) {
    at = line.find_first_not_of(" \t\r", at);
    if (at == std::string_view::npos) break;
    const std::size_t end = std::min(line.find_first_of(" \t\r", at), line.size());
    words.emplace_back(line.substr(at, end - at));
    at = end;
  }
  return words;
}

std::optional<std::uint64_t> number(std::string_view text) {
  std::uint64_t value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

bool is_name(std::string_view text, char letter) {
  if (text.size() < 2 || text.size() > 4 || text[0] != letter) return false;
  const auto value = number(text.substr(1));
  return value && *value > 0;
}

struct Place {
  std::string_view word;
  Word kind;
  std::string_view example;
};
constexpr std::array<Place, 7> kPlaces = {{{"VOLUME", Word::volume, "a volume (v1, v2, …)"},
                                           {"NODE", Word::node, "a node (n1, n2, …)"},
                                           {"SERVER", Word::server, "a server (s1, s2, …)"},
                                           {"TICKET", Word::ticket, "a ticket's id"},
                                           {"NUMBER", Word::number, "a number"},
                                           {"DURATION", Word::duration, "a duration (250ms, 15s, 5m)"},
                                           {"TEXT", Word::text, "a word"}}};

const Place* place_of(std::string_view word) {
  const auto* found =
      std::find_if(kPlaces.begin(), kPlaces.end(), [&](const Place& p) { return p.word == word; });
  return found == kPlaces.end() ? nullptr : found;
}

bool fits(Word kind, std::string_view text) {
  switch (kind) {
    case Word::volume: return is_name(text, 'v');
    case Word::node: return is_name(text, 'n');
    case Word::server: return is_name(text, 's');
    case Word::ticket:
    case Word::text: return !text.empty();
    case Word::number: return number(text).has_value();
    case Word::duration: return parse_signed_duration(text).has_value();
  }
  return false;
}

bool fits(std::string_view form_word, std::string_view text) {
  const Place* place = place_of(form_word);
  return place != nullptr ? fits(place->kind, text) : form_word == text;
}

// How many words of the form the text begins with; a whole fit is the form's size.
std::size_t common(const std::vector<std::string>& form, const std::vector<std::string>& words) {
  std::size_t count = 0;
  while (count < form.size() && count < words.size() && fits(form[count], words[count])) ++count;
  return count;
}

struct Fit {
  const Form* form = nullptr;
  std::size_t length = 0;
};

// The longest form that fits; the error says how far the nearest one got.
Result<Fit> fit(const std::vector<Form>& forms, const std::vector<std::string>& words) {
  Fit best;
  const Form* nearest = nullptr;
  std::size_t near = 0;
  for (const Form& form : forms) {
    const std::vector<std::string> pattern = split(form.usage);
    const std::size_t length = common(pattern, words);
    if (length == pattern.size() && length > best.length) best = {&form, length};
    if (length > near) {
      near = length;
      nearest = &form;
    }
  }
  if (best.form != nullptr) return best;
  if (nearest == nullptr) return make_error(Errc::invalid, fmt::format("\"{}\" is not known", words[0]));
  return make_error(Errc::invalid, fmt::format("this does not read as \"{}\"", nearest->usage));
}

Result<void> read_options(const std::vector<Option>& allowed, const std::vector<std::string>& words,
                          std::size_t from, Statement& statement) {
  for (std::size_t i = from; i < words.size(); i += 2) {
    const auto option =
        std::find_if(allowed.begin(), allowed.end(), [&](const Option& o) { return o.name == words[i]; });
    if (option == allowed.end())
      return make_error(Errc::invalid, fmt::format("\"{}\" is not known here", words[i]));
    if (i + 1 == words.size() || !fits(option->kind, words[i + 1]))
      return make_error(Errc::invalid, fmt::format("\"{}\" needs a value of its kind", words[i]));
    if (!statement.options.emplace(words[i], words[i + 1]).second)
      return make_error(Errc::invalid, fmt::format("\"{}\" is said twice", words[i]));
  }
  return {};
}

bool takes_condition(std::string_view verb) {
  return verb == "until" || verb == "always" || verb == "never" || verb == "check";
}

Result<Statement> read_statement(const std::vector<std::string>& words);

// "at 1500ms" and a statement, or nothing: until then nothing more is told.
Result<Statement> read_timed(const std::vector<std::string>& words) {
  const auto when = words.size() > 1 ? parse_duration(words[1]) : make_error(Errc::invalid, "");
  if (!when)
    return make_error(Errc::invalid, "\"at\" needs a time since the start: at 1500ms crash agent n1");
  Statement statement;
  if (words.size() > 2) {
    TRY(statement, read_statement({words.begin() + 2, words.end()}));
  } else {
    statement.verb = "at";
  }
  statement.at = *when;
  return statement;
}

Result<Statement> read_statement(const std::vector<std::string>& words) {
  if (words[0] == "at") return read_timed(words);
  Statement statement;
  statement.verb = words[0];
  if (!takes_condition(statement.verb)) {
    TRY(const Fit found, fit(statement_forms(), words));
    statement.words.assign(words.begin() + 1, words.begin() + static_cast<std::ptrdiff_t>(found.length));
    TRY_VOID(read_options(found.form->options, words, found.length, statement));
    return statement;
  }
  std::vector<std::string> condition(words.begin() + 1, words.end());
  if (!condition.empty() && condition.front() == "not") {
    statement.options["not"] = "yes";
    condition.erase(condition.begin());
  }
  if (condition.empty())
    return make_error(Errc::invalid, fmt::format("\"{}\" needs a condition: attached v1 n1", words[0]));
  TRY(const Fit found, fit(condition_forms(), condition));
  statement.words.assign(condition.begin(), condition.begin() + static_cast<std::ptrdiff_t>(found.length));
  static const std::vector<Option> within = {{"within", Word::duration}};
  TRY_VOID(read_options(statement.verb == "until" ? within : std::vector<Option>{}, condition, found.length,
                        statement));
  return statement;
}

Result<void> take_cluster(const Statement& statement, Scenario& scenario) {
  const auto value = [&](const char* name, std::uint64_t otherwise) {
    const auto found = statement.options.find(name);
    return found == statement.options.end() ? otherwise : *number(found->second);
  };
  scenario.nodes = static_cast<std::uint32_t>(value("nodes", scenario.nodes));
  scenario.servers = static_cast<std::uint32_t>(value("servers", scenario.servers));
  scenario.seed = value("seed", scenario.seed);
  const auto is = [&](const char* name, const char* text) {
    const auto found = statement.options.find(name);
    return found != statement.options.end() && found->second == text;
  };
  scenario.shared_store = scenario.servers > 1 || is("store", "shared");
  scenario.moods = is("moods", "yes");
  if (scenario.nodes < 1 || scenario.nodes > 32)
    return make_error(Errc::invalid, "a cluster has 1 to 32 nodes");
  if (scenario.servers < 1 || scenario.servers > 5)
    return make_error(Errc::invalid, "a cluster has 1 to 5 servers");
  return {};
}

// Names that do not exist would make a condition that can never hold, or a fault that hits nobody.
Result<void> check_names(const Statement& statement, const Scenario& scenario) {
  for (const std::string& word : statement.words) {
    if (is_name(word, 'n') && number_of(word) > scenario.nodes)
      return make_error(Errc::invalid,
                        fmt::format("there is no {}: the cluster has {} nodes", word, scenario.nodes));
    if (is_name(word, 's') && number_of(word) > scenario.servers)
      return make_error(Errc::invalid,
                        fmt::format("there is no {}: the cluster has {} servers", word, scenario.servers));
    if (is_name(word, 'v') && statement.verb != "volume" && number_of(word) > scenario.volumes)
      return make_error(Errc::invalid,
                        fmt::format("{} is not declared: write \"volume {}\" first", word, word));
  }
  return {};
}

Result<void> take(Statement statement, Scenario& scenario) {
  if (statement.verb == "cluster") {
    if (!scenario.statements.empty()) return make_error(Errc::invalid, "\"cluster\" comes first");
    return take_cluster(statement, scenario);
  }
  TRY_VOID(check_names(statement, scenario));
  if (statement.verb == "volume") {
    if (statement.at) scenario.volumes = std::max(scenario.volumes, number_of(statement.words[0]) - 1);
    if (number_of(statement.words[0]) != scenario.volumes + 1)
      return make_error(Errc::invalid, fmt::format("the next volume is v{}", scenario.volumes + 1));
    ++scenario.volumes;
  }
  scenario.statements.push_back(std::move(statement));
  return {};
}

}  // namespace

std::uint32_t number_of(std::string_view name) {
  return static_cast<std::uint32_t>(*number(name.substr(1)));
}

Result<Duration> parse_signed_duration(std::string_view text) {
  if (!text.starts_with('-')) return parse_duration(text);
  TRY(const Duration positive, parse_duration(text.substr(1)));
  return -positive;
}

Result<Scenario> parse_scenario(std::string_view text, std::string file) {
  Scenario scenario;
  scenario.file = std::move(file);
  int line_number = 0;
  while (!text.empty()) {
    ++line_number;
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    constexpr std::string_view kTitle = "# scenario:";
    if (line.starts_with(kTitle) && scenario.title.empty()) {
      line.remove_prefix(kTitle.size());
      scenario.title = line.substr(std::min(line.find_first_not_of(' '), line.size()));
      continue;
    }
    line = line.substr(0, line.find('#'));
    const std::vector<std::string> words = split(line);
    if (words.empty()) continue;
    auto statement = read_statement(words);
    Result<void> taken = statement ? Result<void>() : Result<void>(statement.error());
    if (statement) {
      statement->line = line_number;
      for (const std::string& word : words) statement->text += (statement->text.empty() ? "" : " ") + word;
      taken = take(*std::move(statement), scenario);
    }
    if (!taken)
      return make_error(Errc::invalid,
                        fmt::format("{}:{}: {}", scenario.file, line_number, taken.error().message));
  }
  if (scenario.title.empty())
    return make_error(Errc::invalid, fmt::format("{}:1: the first line says what it shows: \"# scenario: …\"",
                                                 scenario.file));
  if (scenario.statements.empty())
    return make_error(Errc::invalid, fmt::format("{}: the scenario is empty", scenario.file));
  return scenario;
}

}  // namespace moor::sim
