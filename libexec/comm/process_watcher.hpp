#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <functional>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "libexec/comm/job_session.hpp"
#include "libexec/comm/tcp_socket.hpp"

namespace stagecraft {

/// The connections of one process to others of its job, and the thread that reads them, says that
/// the process lives, and ends it when another has failed or is gone.
class ProcessWatcher {
 public:
  using Numbers = JobSession::Numbers;
  /// The last words about a process that is gone.
  using Describe = std::function<LastWords(std::string const& what)>;

  /// `sockets`: to ranks 1 and up, or on those the one to rank 0.
  ProcessWatcher(int rank,
                 std::vector<Socket> sockets,
                 std::chrono::seconds silence,
                 Describe describe);
  /// `leave()` has returned, or the process is about to end.
  ~ProcessWatcher();
  ProcessWatcher(ProcessWatcher const&) = delete;
  ProcessWatcher(ProcessWatcher&&) = delete;
  ProcessWatcher& operator=(ProcessWatcher const&) = delete;
  ProcessWatcher& operator=(ProcessWatcher&&) = delete;

  void send(int to, Numbers const& numbers);
  /// The next numbers of a rank, in the order of their sending.
  Numbers receive(int from);
  /// Waits until all processes have called it. After it, connections may close.
  void leave();
  /// Ends all processes: rank 0 says why. Whoever fails first is heard.
  [[noreturn]] void fail(LastWords const& words);

 private:
  enum class Kind : std::uint32_t { numbers, life, failure, end, leave };
  struct Header {
    Kind kind = Kind::life;
    std::int32_t exit_code = 0;
    std::uint64_t bytes = 0;  ///< that follow
  };
  struct Peer {
    Peer(int number, Socket connection) : rank{number}, socket{std::move(connection)} {}
    int rank;
    Socket socket;
    std::mutex sending;
    Deadline heard = std::chrono::steady_clock::now();
    std::vector<std::byte> unread;  ///< the watching thread's; the begin of a frame
    std::deque<Numbers> inbox;
    bool has_left = false;
    bool is_closed = false;
  };

  Peer& peer(int rank);
  /// Whether the other end still takes it.
  bool send_frame(Peer& to, Header const& header, std::span<std::byte const> bytes, Deadline until);
  void watch();
  /// Reads what has come. \returns whether the connection is still open
  bool read_from(Peer& from);
  void take_frames(Peer& from);
  void take(Peer& from, Header const& header, std::span<std::byte const> bytes);
  void say_alive();
  /// What the watching thread does where a process is gone.
  void mourn(Peer const& lost, std::string const& how);
  [[noreturn]] void end_job(LastWords const& words);
  /// Waits until the others have closed. What is left unread when this end closes would have the
  /// system take back what was sent.
  void drain(Deadline until);

  int rank_;
  std::chrono::seconds silence_;
  Describe describe_;
  std::deque<Peer> peers_;
  std::mutex mutex_;
  std::condition_variable changed_;
  std::optional<LastWords> failure_;  ///< of this process
  bool is_reported_ = false;          ///< to rank 0
  Deadline reported_{};
  bool must_stop_ = false;
  Deadline said_alive_{};
  std::thread thread_;
};

}  // namespace stagecraft
