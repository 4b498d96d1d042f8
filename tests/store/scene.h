// What the killed writer writes and its witness checks: pairs that must be equal, accounts whose sum is
// fixed.
#pragma once

#include <fmt/format.h>

#include <charconv>
#include <string>
#include <string_view>

namespace moor::store {

inline constexpr int kClients = 24;
inline constexpr int kAccounts = 8;
inline constexpr int kMoney = 8'000;
inline constexpr int kTrail = 20;  // keys that a client leaves behind

inline std::string left_key(int client) {
  return fmt::format("/client/{}/left", client);
}
inline std::string right_key(int client) {
  return fmt::format("/client/{}/right", client);
}
inline std::string trail_key(int client, int count) {
  return fmt::format("/client/{}/trail/{}", client, count);
}
inline std::string account_key(int account) {
  return fmt::format("/account/{}", account);
}

// "17:ppp" is 17.
inline int number_of(std::string_view value) {
  int number = 0;
  std::from_chars(value.data(), value.data() + value.size(), number);
  return number;
}

}  // namespace moor::store
