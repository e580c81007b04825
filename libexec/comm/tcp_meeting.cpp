#include "libexec/comm/tcp_meeting.hpp"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>

#include "libexec/comm/communication_error.hpp"
#include "libexec/comm/meeting_file.hpp"

namespace stagecraft {
namespace {

using namespace std::chrono_literals;
using std::chrono::steady_clock;

constexpr int ports_tried = 8;
/// For an answer of somebody who has accepted: rank 0 answers all who come, one by one.
constexpr auto greeting_patience = 5s;
constexpr auto pause = 50ms;

/// What both ends say first.
struct Greeting {
  enum class Verdict : std::int32_t { asks, welcome, other_size, taken };

  std::array<char, 16> program{"stagecraft-exec"};
  std::uint64_t job = 0;    ///< of its name
  std::uint64_t nonce = 0;  ///< of the file, where there is one
  std::int32_t rank = 0;
  std::int32_t size = 0;
  Verdict verdict = Verdict::asks;
  std::int32_t reserved = 0;
};

std::uint64_t name_hash(std::string const& name) {
  std::uint64_t hash = 14695981039346656037ULL;  // FNV-1a
  for (char const letter : name) {
    hash = (hash ^ static_cast<unsigned char>(letter)) * 1099511628211ULL;
  }
  return hash;
}

bool is_of_same_job(Greeting const& a, Greeting const& b) {
  return a.program == b.program && a.job == b.job && a.nonce == b.nonce;
}

bool send_greeting(Socket const& socket, Greeting const& greeting, Deadline deadline) {
  return send_all(socket, std::as_bytes(std::span{&greeting, 1}), deadline);
}

std::optional<Greeting> receive_greeting(Socket const& socket, Deadline deadline) {
  Greeting greeting;
  if (!receive_all(socket, std::as_writable_bytes(std::span{&greeting, 1}), deadline)) return {};
  return greeting;
}

std::uint64_t random_nonce() {
  std::random_device source;
  return (std::uint64_t{source()} << 32U) ^ source() ^ static_cast<std::uint64_t>(getpid());
}

/// Rank 0: waits for all others.
class Host {
 public:
  Host(ProcessPlace const& place, std::chrono::seconds patience)
      : place_{place},
        patience_{patience},
        deadline_{steady_clock::now() + patience},
        own_{.job = name_hash(place.job), .size = place.size} {}

  std::vector<Socket> meet() {
    MeetingFile const file{place_};
    bool const has_file = !place_.meeting_folder.empty();
    if (has_file) own_.nonce = random_nonce();
    Socket const listener = has_file ? std::move(*listen_on(0)) : listen_near_master();
    if (has_file) file.write(port_of(listener), own_.nonce);
    sockets_.resize(static_cast<std::size_t>(place_.size));
    for (int missing = place_.size - 1; missing > 0;) {
      std::optional<Socket> socket = accept_one(listener, deadline_);
      if (!socket) {
        if (has_file) file.remove();
        refuse_to_wait();
      }
      if (greet(std::move(*socket))) --missing;
    }
    if (has_file) file.remove();
    return start_all();
  }

 private:
  Socket listen_near_master() const {
    for (int i = 0; i < ports_tried; ++i) {
      if (auto socket = listen_on(place_.master_port + i)) return std::move(*socket);
    }
    throw CommunicationError{"rank 0 listens for the others: ports " +
                             std::to_string(place_.master_port) + " to " +
                             std::to_string(place_.master_port + ports_tried - 1) + " are taken"};
  }

  /// Whether another rank has come.
  bool greet(Socket socket) {
    auto const asked = receive_greeting(socket, std::min(deadline_, steady_clock::now() + 2s));
    if (!asked || !is_of_same_job(*asked, own_)) return false;
    Greeting answer = own_;
    auto const refuse = [&](Greeting::Verdict verdict) {
      answer.verdict = verdict;
      send_greeting(socket, answer, deadline_);
      return false;
    };
    if (asked->size != place_.size || asked->rank <= 0 || asked->rank >= place_.size) {
      return refuse(Greeting::Verdict::other_size);
    }
    auto& place = sockets_[static_cast<std::size_t>(asked->rank)];
    if (place) return refuse(Greeting::Verdict::taken);
    answer.verdict = Greeting::Verdict::welcome;
    if (!send_greeting(socket, answer, deadline_)) return false;
    place.emplace(std::move(socket));
    return true;
  }

  /// A second welcome says that all are there.
  std::vector<Socket> start_all() {
    std::vector<Socket> sockets;
    own_.verdict = Greeting::Verdict::welcome;
    for (std::size_t i = 1; i < sockets_.size(); ++i) {
      if (!send_greeting(*sockets_[i], own_, deadline_)) {
        throw CommunicationError{"rank " + std::to_string(i) + " has gone before the start"};
      }
      sockets.push_back(std::move(*sockets_[i]));
    }
    return sockets;
  }

  [[noreturn]] void refuse_to_wait() const {
    constexpr int most_listed = 16;
    std::string missing;
    int count = 0;
    for (int i = 1; i < place_.size; ++i) {
      if (sockets_[static_cast<std::size_t>(i)]) continue;
      if (++count <= most_listed) missing += (count > 1 ? ", " : "") + std::to_string(i);
    }
    if (count > most_listed) missing += ", ...";
    throw CommunicationError{"rank 0 waited " + std::to_string(patience_.count()) + " s for " +
                             std::to_string(place_.size) + " processes (" + place_.launcher +
                             "): " + std::to_string(count) + " did not come: " + missing};
  }

  ProcessPlace const& place_;
  std::chrono::seconds patience_;
  Deadline deadline_;
  Greeting own_;
  std::vector<std::optional<Socket>> sockets_;  ///< by rank
};

/// Any other rank: looks for rank 0.
class Guest {
 public:
  Guest(ProcessPlace const& place, std::chrono::seconds patience)
      : place_{place},
        patience_{patience},
        deadline_{steady_clock::now() + patience},
        own_{.job = name_hash(place.job), .rank = place.rank, .size = place.size} {}

  Socket meet() {
    while (steady_clock::now() < deadline_) {
      if (auto socket = place_.meeting_folder.empty() ? try_ports() : try_file()) {
        wait_for_all(*socket);
        return std::move(*socket);
      }
      std::this_thread::sleep_for(pause);
    }
    std::string const where = place_.meeting_folder.empty()
                                  ? place_.master_host + ", ports " +
                                        std::to_string(place_.master_port) + " to " +
                                        std::to_string(place_.master_port + ports_tried - 1)
                                  : "the file '" + MeetingFile{place_}.path() + "'";
    throw CommunicationError{"rank " + std::to_string(place_.rank) + " looked " +
                             std::to_string(patience_.count()) + " s for rank 0: nobody at " +
                             where};
  }

 private:
  std::optional<Socket> try_ports() {
    for (int i = 0; i < ports_tried; ++i) {
      if (auto socket = ask(place_.master_host, place_.master_port + i)) return socket;
    }
    return std::nullopt;
  }

  std::optional<Socket> try_file() {
    auto const contents = MeetingFile{place_}.read();
    if (!contents) return std::nullopt;
    own_.nonce = contents->nonce;
    for (std::string const& host : contents->hosts) {
      if (auto socket = ask(host, contents->port)) return socket;
    }
    return std::nullopt;
  }

  /// A socket to rank 0 of this job, if it is there.
  std::optional<Socket> ask(std::string const& host, int port) {
    Deadline const until = std::min(deadline_, steady_clock::now() + greeting_patience);
    auto socket = connect_to(host, port, until);
    if (!socket || !send_greeting(*socket, own_, until)) return std::nullopt;
    auto const answer = receive_greeting(*socket, until);
    if (!answer || !is_of_same_job(*answer, own_)) return std::nullopt;
    std::string const who = "rank " + std::to_string(place_.rank);
    if (answer->verdict == Greeting::Verdict::other_size) {
      throw CommunicationError{who + " is one of " + std::to_string(place_.size) +
                               " processes, rank 0 one of " + std::to_string(answer->size)};
    }
    if (answer->verdict == Greeting::Verdict::taken) {
      throw CommunicationError{"two processes say that they are " + who + " (" + place_.launcher +
                               ")"};
    }
    return socket;
  }

  void wait_for_all(Socket const& socket) {
    if (receive_greeting(socket, deadline_ + greeting_patience)) return;
    throw CommunicationError{"rank " + std::to_string(place_.rank) +
                             ": rank 0 has gone before all processes had come"};
  }

  ProcessPlace const& place_;
  std::chrono::seconds patience_;
  Deadline deadline_;
  Greeting own_;
};

}  // namespace

std::vector<Socket> meet_processes(ProcessPlace const& place, std::chrono::seconds patience) {
  if (place.rank == 0) return Host{place, patience}.meet();
  std::vector<Socket> sockets;
  sockets.push_back(Guest{place, patience}.meet());
  return sockets;
}

}  // namespace stagecraft
