#include "libexec/comm/tcp_socket.hpp"

#include <arpa/inet.h>
#include <fcntl.h>
#include <ifaddrs.h>
#include <net/if.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>

#include "libexec/comm/communication_error.hpp"

namespace stagecraft {
namespace {

using std::chrono::milliseconds;

CommunicationError error_of(std::string const& call) {
  return CommunicationError{call + ": " + std::strerror(errno)};
}

/// Whether `events` happened before the deadline.
bool wait_for(int descriptor, short events, Deadline deadline) {
  while (true) {
    auto const left =
        std::chrono::duration_cast<milliseconds>(deadline - std::chrono::steady_clock::now());
    pollfd one{.fd = descriptor, .events = events, .revents = 0};
    int const ready = poll(&one, 1, static_cast<int>(std::max<std::int64_t>(left.count(), 0)));
    if (ready > 0) return true;
    if (ready == 0 || errno != EINTR) return false;
  }
}

void set_flag(Socket const& socket, int level, int option, int value = 1) {
  setsockopt(socket.descriptor(), level, option, &value, sizeof value);
}

/// Small messages leave at once; nothing blocks but by poll().
void prepare(Socket const& socket) {
  set_flag(socket, IPPROTO_TCP, TCP_NODELAY);
  fcntl(socket.descriptor(), F_SETFL, O_NONBLOCK);
}

using Addresses = std::unique_ptr<addrinfo, decltype(&freeaddrinfo)>;

Addresses addresses_of(std::string const& host, int port) {
  addrinfo hints{};
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  int const status = getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found);
  return {status == 0 ? found : nullptr, &freeaddrinfo};
}

/// Listens on IPv6 and IPv4, or where there is no IPv6 on that; -1 and errno.
int open_listener(int family, int port) {
  int const descriptor = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (descriptor < 0) return -1;
  Socket owner{descriptor};
  set_flag(owner, SOL_SOCKET, SO_REUSEADDR);
  int status = -1;
  if (family == AF_INET6) {
    set_flag(owner, IPPROTO_IPV6, IPV6_V6ONLY, 0);
    sockaddr_in6 address{};
    address.sin6_family = AF_INET6;
    address.sin6_port = htons(static_cast<std::uint16_t>(port));
    status = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
  } else {
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(static_cast<std::uint16_t>(port));
    status = bind(descriptor, reinterpret_cast<sockaddr*>(&address), sizeof address);
  }
  if (status != 0 || listen(descriptor, SOMAXCONN) != 0) return -1;
  return dup(descriptor);
}

}  // namespace

Socket::~Socket() {
  if (descriptor_ < 0) return;
  int const kept = errno;  // of whatever failed
  close(descriptor_);
  errno = kept;
}

std::optional<Socket> listen_on(int port) {
  int descriptor = open_listener(AF_INET6, port);
  if (descriptor < 0 && errno != EADDRINUSE) descriptor = open_listener(AF_INET, port);
  if (descriptor < 0 && errno == EADDRINUSE) return std::nullopt;
  if (descriptor < 0) throw error_of("listening on port " + std::to_string(port));
  Socket socket{descriptor};
  fcntl(descriptor, F_SETFD, FD_CLOEXEC);
  fcntl(descriptor, F_SETFL, O_NONBLOCK);
  return socket;
}

int port_of(Socket const& socket) {
  sockaddr_storage address{};
  socklen_t length = sizeof address;
  getsockname(socket.descriptor(), reinterpret_cast<sockaddr*>(&address), &length);
  return ntohs(address.ss_family == AF_INET6
                   ? reinterpret_cast<sockaddr_in6 const&>(address).sin6_port
                   : reinterpret_cast<sockaddr_in const&>(address).sin_port);
}

std::optional<Socket> accept_one(Socket const& listener, Deadline deadline) {
  while (wait_for(listener.descriptor(), POLLIN, deadline)) {
    int const descriptor = accept4(listener.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
    if (descriptor >= 0) {
      Socket socket{descriptor};
      prepare(socket);
      return socket;
    }
    bool const is_passing = errno == EINTR || errno == EAGAIN || errno == ECONNABORTED;
    if (!is_passing) throw error_of("accepting a connection");
  }
  return std::nullopt;
}

std::optional<Socket> connect_to(std::string const& host, int port, Deadline deadline) {
  Addresses const addresses = addresses_of(host, port);
  for (addrinfo const* one = addresses.get(); one != nullptr; one = one->ai_next) {
    int const descriptor = socket(one->ai_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (descriptor < 0) continue;
    Socket socket{descriptor};
    prepare(socket);
    if (connect(descriptor, one->ai_addr, one->ai_addrlen) != 0) {
      if (errno != EINPROGRESS || !wait_for(descriptor, POLLOUT, deadline)) continue;
      int error = 0;
      socklen_t length = sizeof error;
      getsockopt(descriptor, SOL_SOCKET, SO_ERROR, &error, &length);
      if (error != 0) continue;
    }
    return socket;
  }
  return std::nullopt;
}

bool send_all(Socket const& socket, std::span<std::byte const> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ssize_t const sent = send(socket.descriptor(), bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (sent > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(sent));
      continue;
    }
    bool const may_go_on =
        errno == EINTR || (errno == EAGAIN && wait_for(socket.descriptor(), POLLOUT, deadline));
    if (!may_go_on) return false;
  }
  return true;
}

bool receive_all(Socket const& socket, std::span<std::byte> bytes, Deadline deadline) {
  while (!bytes.empty()) {
    ssize_t const received = recv(socket.descriptor(), bytes.data(), bytes.size(), 0);
    if (received > 0) {
      bytes = bytes.subspan(static_cast<std::size_t>(received));
      continue;
    }
    bool const may_go_on =
        received < 0 &&
        (errno == EINTR || (errno == EAGAIN && wait_for(socket.descriptor(), POLLIN, deadline)));
    if (!may_go_on) return false;
  }
  return true;
}

std::string host_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

std::vector<std::string> host_addresses() {
  ifaddrs* first = nullptr;
  if (getifaddrs(&first) != 0) return {};
  std::unique_ptr<ifaddrs, decltype(&freeifaddrs)> const all{first, &freeifaddrs};
  std::vector<std::string> addresses;
  for (ifaddrs const* one = first; one != nullptr; one = one->ifa_next) {
    bool const is_of_interest = one->ifa_addr != nullptr && (one->ifa_flags & IFF_UP) != 0 &&
                                (one->ifa_flags & IFF_LOOPBACK) == 0;
    if (!is_of_interest) continue;
    int const family = one->ifa_addr->sa_family;
    if (family != AF_INET && family != AF_INET6) continue;
    std::array<char, NI_MAXHOST> text{};
    auto const length =
        static_cast<socklen_t>(family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6));
    if (getnameinfo(one->ifa_addr, length, text.data(), text.size(), nullptr, 0, NI_NUMERICHOST) ==
        0) {
      addresses.emplace_back(text.data());
    }
  }
  return addresses;
}

}  // namespace stagecraft
