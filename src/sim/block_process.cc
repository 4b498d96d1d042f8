#include "sim/block_process.h"

#include <csignal>

#include "sim/machine.h"

namespace moor::sim {

BlockProcess::BlockProcess(Machine& machine, agent::ProcessSpec spec, int pid)
    : machine_(machine), spec_(std::move(spec)), pid_(pid) {}

Context& BlockProcess::context() {
  return machine_.context();
}

void BlockProcess::deliver(Work work) {
  if (ended_) return;
  if (paused_) {
    held_.push_back(std::move(work));
    return;
  }
  work();
}

void BlockProcess::deliver_later(Duration delay, Work work) {
  context().scheduler.after(delay,
                            [self = shared_from_this(), work = std::move(work)] { self->deliver(work); });
}

void BlockProcess::pause() {
  if (ended_ || paused_) return;
  paused_ = true;
  context().trace(machine_.name(), "process", spec_.key + " is paused");
}

void BlockProcess::resume() {
  if (!std::exchange(paused_, false)) return;
  context().trace(machine_.name(), "process", spec_.key + " goes on");
  const auto self = shared_from_this();
  while (!held_.empty() && !paused_ && !ended_) {
    const Work work = std::move(held_.front());
    held_.pop_front();
    work();
  }
}

void BlockProcess::kill(int signal) {
  if (ended_) return;
  ++context().counts.crashes;
  end({std::nullopt, signal});
}

void BlockProcess::signal(int number) {
  if (ended_) return;
  if (number == SIGKILL) return kill(SIGKILL);
  deliver([this] { terminate(); });
}

void BlockProcess::end(agent::ProcessEnd how) {
  if (ended_) return;
  const auto self = shared_from_this();
  context().trace(machine_.name(), "process", role() + " " + spec_.key + ": " + how.text());
  ended_ = std::move(how);
  held_.clear();
  drop_core();
  for (const auto& session : sessions) {
    session->open = false;
    if (session->waiter) session->waiter->set(true);
  }
  sessions.clear();
  wake();
  context().changed.processes = true;
}

void BlockProcess::wake() {
  for (const Completion<bool>& one : std::exchange(waiting, {})) one.set(true);
}

void BlockProcess::listen() {
  listens_ = true;
  wake();
}

void BlockProcess::publish(std::string_view event, const Json& data) {
  for (const auto& session : sessions) {
    if (!session->open) continue;
    agent::Control::Event one{std::string(event), data};
    context().scheduler.after(context().network.delay(machine_.id(), machine_.id()), [session, one] {
      session->events.push_back(one);
      if (session->waiter) session->waiter->set(true);
    });
  }
  std::erase_if(sessions, [](const auto& session) { return !session->open; });
}

std::vector<std::string> BlockProcess::options(std::string_view name) const {
  std::vector<std::string> values;
  for (std::size_t i = 0; i + 1 < spec_.arguments.size(); ++i)
    if (spec_.arguments[i] == name) values.push_back(spec_.arguments[i + 1]);
  return values;
}

std::string BlockProcess::option(std::string_view name) const {
  const auto all = options(name);
  return all.empty() ? "" : all.front();
}

}  // namespace moor::sim
