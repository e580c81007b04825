#include "libexec/comm/process_session.hpp"

#include <exception>
#include <fstream>
#include <string>
#include <utility>

#include "libexec/comm/clock_comparison.hpp"
#include "libexec/comm/communication_error.hpp"
#include "libexec/comm/process_watcher.hpp"
#include "libexec/comm/tcp_meeting.hpp"

namespace stagecraft {
namespace {

/// The same for all processes that share a steady clock: Linux names each start of a machine.
JobSession::Numbers machine_name() {
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  std::string name;
  file >> name;
  if (name.empty()) name = host_name();
  return {name.begin(), name.end()};
}

}  // namespace

ProcessSession::ProcessSession(ProcessPlace const& place, Describe describe, Patience patience)
    : place_{place}, describe_{std::move(describe)} {
  watcher_ = std::make_unique<ProcessWatcher>(
      place.rank, meet_processes(place, patience.meeting), patience.silence,
      [this](std::string const& what) {
        return describe_(std::make_exception_ptr(CommunicationError{what}));
      });
}

ProcessSession::~ProcessSession() {
  if (std::uncaught_exceptions() == 0) watcher_->leave();
}

void ProcessSession::fail(std::exception_ptr const& error) { watcher_->fail(describe_(error)); }

std::vector<JobSession::Numbers> ProcessSession::gather(Numbers const& numbers) {
  if (rank() != 0) {
    watcher_->send(0, numbers);
    return {};
  }
  std::vector<Numbers> all{numbers};
  for (int i = 1; i < size(); ++i) all.push_back(watcher_->receive(i));
  return all;
}

JobSession::Numbers ProcessSession::scatter(std::vector<Numbers> const& parts) {
  if (rank() != 0) return watcher_->receive(0);
  for (int i = 1; i < size(); ++i) watcher_->send(i, parts.at(static_cast<std::size_t>(i)));
  return parts.at(0);
}

std::chrono::nanoseconds ProcessSession::clock_offset() {
  bool const is_near = broadcast(*this, machine_name()) == machine_name();
  if (rank() != 0) {
    auto const offset = offset_of_clock([this] {
      watcher_->send(0, {});
      return watcher_->receive(0).at(0);
    });
    return is_near ? std::chrono::nanoseconds{0} : offset;
  }
  for (int i = 1; i < size(); ++i) {
    for (int k = 0; k < time_questions; ++k) {
      watcher_->receive(i);
      watcher_->send(i, {nanoseconds_now()});
    }
  }
  return std::chrono::nanoseconds{0};
}

}  // namespace stagecraft
