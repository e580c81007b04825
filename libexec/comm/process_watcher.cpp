#include "libexec/comm/process_watcher.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "libexec/comm/communication_error.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

/// Between two looks at what the process itself wants.
constexpr auto look_around = 20ms;
constexpr auto life_interval = 2s;
/// What a process that fails waits for rank 0 to end all, before it goes alone.
constexpr auto last_patience = 5s;
/// What rank 0, at the end, gives the others to hear of it.
constexpr auto farewell = 2s;
/// A reason may list what was live; more of it is cut off.
constexpr std::size_t most_words = std::size_t{64} << 10;

void say(std::string const& reason) {
  std::fputs(reason.c_str(), stderr);  // std::cerr is silent on all ranks but the first
  std::fflush(stderr);
}

std::span<std::byte const> bytes_of(std::string const& text) {
  return std::as_bytes(std::span{text.data(), text.size()});
}

}  // namespace

ProcessWatcher::ProcessWatcher(int rank,
                               std::vector<Socket> sockets,
                               std::chrono::seconds silence,
                               Describe describe)
    : rank_{rank}, silence_{silence}, describe_{std::move(describe)} {
  int number = rank == 0 ? 1 : 0;
  for (Socket& socket : sockets) peers_.emplace_back(number++, std::move(socket));
  thread_ = std::thread{[this] { watch(); }};
}

ProcessWatcher::~ProcessWatcher() {
  {
    std::scoped_lock const lock{mutex_};
    must_stop_ = true;
  }
  thread_.join();
}

ProcessWatcher::Peer& ProcessWatcher::peer(int rank) {
  return rank_ == 0 ? peers_.at(static_cast<std::size_t>(rank - 1)) : peers_.front();
}

bool ProcessWatcher::send_frame(Peer& to,
                                Header const& header,
                                std::span<std::byte const> bytes,
                                Deadline until) {
  std::scoped_lock const lock{to.sending};
  return send_all(to.socket, std::as_bytes(std::span{&header, 1}), until) &&
         send_all(to.socket, bytes, until);
}

void ProcessWatcher::send(int to, Numbers const& numbers) {
  auto const bytes = std::as_bytes(std::span{numbers.data(), numbers.size()});
  Header const header{.kind = Kind::numbers, .bytes = bytes.size()};
  if (send_frame(peer(to), header, bytes, steady_clock::now() + 2 * silence_)) return;
  // The watching thread will find out why, and end the process.
  std::this_thread::sleep_for(2 * silence_);
  throw CommunicationError{"rank " + std::to_string(to) + " takes no messages"};
}

ProcessWatcher::Numbers ProcessWatcher::receive(int from) {
  Peer& sender = peer(from);
  std::unique_lock lock{mutex_};
  changed_.wait(lock, [&] { return !sender.inbox.empty() || sender.has_left; });
  if (sender.inbox.empty()) {
    throw CommunicationError{"rank " + std::to_string(from) + " has left before the others"};
  }
  Numbers numbers = std::move(sender.inbox.front());
  sender.inbox.pop_front();
  return numbers;
}

void ProcessWatcher::leave() {
  auto const say_leave = [&] {
    for (Peer& one : peers_) {
      send_frame(one, {.kind = Kind::leave}, {}, steady_clock::now() + silence_);
    }
  };
  if (rank_ != 0) say_leave();
  {
    std::unique_lock lock{mutex_};
    changed_.wait(lock, [&] {
      return std::all_of(peers_.begin(), peers_.end(),
                         [](Peer const& one) { return one.has_left; });
    });
  }
  if (rank_ == 0) say_leave();
}

void ProcessWatcher::fail(LastWords const& words) {
  {
    std::scoped_lock const lock{mutex_};
    if (!failure_) failure_ = words;
  }
  while (true) std::this_thread::sleep_for(1h);  // the watching thread ends the process
}

void ProcessWatcher::watch() {
  std::vector<pollfd> looks;
  std::vector<Peer*> looked_at;
  while (true) {
    {
      std::unique_lock lock{mutex_};
      if (failure_ && (rank_ == 0 || peers_.empty())) {
        LastWords const words = *failure_;
        lock.unlock();
        end_job(words);
      }
      if (failure_ && !is_reported_) {
        is_reported_ = true;
        reported_ = steady_clock::now();
        std::string const text = failure_->reason.substr(0, most_words);
        send_frame(peers_.front(),
                   {.kind = Kind::failure, .exit_code = failure_->exit_code, .bytes = text.size()},
                   bytes_of(text), steady_clock::now() + last_patience);
      }
      if (failure_ && steady_clock::now() > reported_ + last_patience) {
        say(failure_->reason);
        std::_Exit(failure_->exit_code);
      }
      if (must_stop_) break;
    }
    looks.clear();
    looked_at.clear();
    for (Peer& one : peers_) {
      if (one.is_closed) continue;
      looks.push_back({.fd = one.socket.descriptor(), .events = POLLIN, .revents = 0});
      looked_at.push_back(&one);
    }
    poll(looks.data(), looks.size(), static_cast<int>(look_around.count()));
    for (std::size_t i = 0; i < looks.size(); ++i) {
      Peer& one = *looked_at[i];
      if (looks[i].revents != 0 && !read_from(one)) {
        one.is_closed = true;
        if (!one.has_left) mourn(one, "its connection has closed");
      }
      bool const is_silent = steady_clock::now() > one.heard + silence_;
      if (is_silent && !one.has_left) {
        mourn(one, "nothing was heard of it for " + std::to_string(silence_.count()) + " s");
      }
    }
    say_alive();
  }
  bool const have_left =
      std::all_of(peers_.begin(), peers_.end(), [](Peer const& one) { return one.has_left; });
  if (rank_ == 0 && have_left) drain(steady_clock::now() + farewell);
}

bool ProcessWatcher::read_from(Peer& from) {
  std::array<std::byte, std::size_t{64} << 10> part;
  while (true) {
    ssize_t const count = recv(from.socket.descriptor(), part.data(), part.size(), MSG_DONTWAIT);
    if (count > 0) {
      from.heard = steady_clock::now();
      from.unread.insert(from.unread.end(), part.begin(), part.begin() + count);
      take_frames(from);
    } else if (count == 0 || (errno != EAGAIN && errno != EINTR)) {
      return false;
    } else if (errno == EAGAIN) {
      return true;
    }
  }
}

void ProcessWatcher::take_frames(Peer& from) {
  std::size_t at = 0;
  while (from.unread.size() - at >= sizeof(Header)) {
    Header header;
    std::memcpy(&header, from.unread.data() + at, sizeof header);
    if (from.unread.size() - at - sizeof header < header.bytes) break;
    take(from, header, std::span{from.unread}.subspan(at + sizeof header, header.bytes));
    at += sizeof header + header.bytes;
  }
  from.unread.erase(from.unread.begin(), from.unread.begin() + static_cast<std::ptrdiff_t>(at));
}

void ProcessWatcher::take(Peer& from, Header const& header, std::span<std::byte const> bytes) {
  switch (header.kind) {
    case Kind::life:
      return;
    case Kind::end:
      std::_Exit(header.exit_code);  // rank 0 has said why
    case Kind::failure:
      end_job({header.exit_code, {reinterpret_cast<char const*>(bytes.data()), bytes.size()}});
    case Kind::numbers:
    case Kind::leave:
      break;
  }
  {
    std::scoped_lock const lock{mutex_};
    if (header.kind == Kind::leave) {
      from.has_left = true;
    } else {
      Numbers& numbers = from.inbox.emplace_back(bytes.size() / sizeof(std::int64_t));
      if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
    }
  }
  changed_.notify_all();
}

void ProcessWatcher::say_alive() {
  auto const now = steady_clock::now();
  if (now < said_alive_ + life_interval) return;
  said_alive_ = now;
  for (Peer& one : peers_) {
    // Whoever is being sent something hears by that; and who takes nothing must not hold this up.
    std::unique_lock const lock{one.sending, std::try_to_lock};
    pollfd look{.fd = one.socket.descriptor(), .events = POLLOUT, .revents = 0};
    if (!lock || one.is_closed || poll(&look, 1, 0) != 1) continue;
    Header const header;
    send_all(one.socket, std::as_bytes(std::span{&header, 1}), now + 1s);
  }
}

void ProcessWatcher::mourn(Peer const& lost, std::string const& how) {
  {
    std::scoped_lock const lock{mutex_};
    if (must_stop_) return;
  }
  LastWords const words = describe_("rank " + std::to_string(lost.rank) + " is gone: " + how);
  if (rank_ == 0) end_job(words);
  std::unique_lock lock{mutex_};
  say(failure_ ? failure_->reason : words.reason);
  std::_Exit(failure_ ? failure_->exit_code : words.exit_code);
}

void ProcessWatcher::end_job(LastWords const& words) {
  say(words.reason);
  Deadline const until = steady_clock::now() + farewell;
  for (Peer& one : peers_) {
    if (one.is_closed) continue;
    send_frame(one, {.kind = Kind::end, .exit_code = words.exit_code}, {}, until);
  }
  drain(until);
  std::_Exit(words.exit_code);
}

void ProcessWatcher::drain(Deadline until) {
  std::array<std::byte, 4096> part;
  for (Peer& one : peers_) {
    pollfd look{.fd = one.socket.descriptor(), .events = POLLIN, .revents = 0};
    while (!one.is_closed && steady_clock::now() < until) {
      poll(&look, 1, static_cast<int>(look_around.count()));
      ssize_t const count = recv(look.fd, part.data(), part.size(), MSG_DONTWAIT);
      one.is_closed = count == 0 || (count < 0 && errno != EAGAIN && errno != EINTR);
    }
  }
}

}  // namespace stagecraft
