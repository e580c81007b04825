#pragma once

#include <chrono>
#include <cstddef>
#include <optional>
#include <span>
#include <string>
#include <vector>

namespace stagecraft {

/// An open socket, closed exactly once.
class Socket {
 public:
  explicit Socket(int descriptor) : descriptor_{descriptor} {}
  ~Socket();
  Socket(Socket const&) = delete;
  Socket(Socket&& other) noexcept : descriptor_{other.descriptor_} { other.descriptor_ = -1; }
  Socket& operator=(Socket const&) = delete;
  Socket& operator=(Socket&&) = delete;

  int descriptor() const { return descriptor_; }

 private:
  int descriptor_;
};

using Deadline = std::chrono::steady_clock::time_point;

/// A socket on all interfaces; nothing where the port is taken. `port` 0: any that is free.
/// \throws CommunicationError
std::optional<Socket> listen_on(int port);
int port_of(Socket const& socket);

/// The next connection; nothing when the deadline is over. \throws CommunicationError
std::optional<Socket> accept_one(Socket const& listener, Deadline deadline);

/// Nothing where nobody answers.
std::optional<Socket> connect_to(std::string const& host, int port, Deadline deadline);

/// All bytes, or nothing more: false when the other end is gone or the deadline is over.
bool send_all(Socket const& socket, std::span<std::byte const> bytes, Deadline deadline);
bool receive_all(Socket const& socket, std::span<std::byte> bytes, Deadline deadline);

/// The name of this machine, and its addresses in numbers, without those of the loopback.
std::string host_name();
std::vector<std::string> host_addresses();

}  // namespace stagecraft
