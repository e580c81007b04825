#include "tests/libexec/nccl_emulation/meeting.hpp"

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <list>
#include <mutex>
#include <random>
#include <stdexcept>
#include <string>
#include <thread>

#include "tests/libexec/nccl_emulation/board.hpp"
#include "tests/libexec/nccl_emulation/failure.hpp"

namespace stagecraft::nccl_emulation {
namespace {

/// A descriptor, closed once.
class Descriptor {
 public:
  explicit Descriptor(int number) : number_{number} {}
  ~Descriptor() { close(number_); }
  Descriptor(Descriptor const&) = delete;
  Descriptor(Descriptor&&) = delete;
  Descriptor& operator=(Descriptor const&) = delete;
  Descriptor& operator=(Descriptor&&) = delete;
  int get() const { return number_; }

 private:
  int number_;
};

struct Address {
  sockaddr_un name{};
  socklen_t bytes = 0;
};

/// Of Linux's abstract namespace: the name begins with a zero.
Address address_of(ncclUniqueId const& id) {
  Address address;
  address.name.sun_family = AF_UNIX;
  std::size_t const length = strnlen(id.internal, sizeof address.name.sun_path - 2);
  std::memcpy(address.name.sun_path + 1, id.internal, length);
  address.bytes = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + length);
  return address;
}

/// A byte that carries a descriptor along: unix(7), SCM_RIGHTS.
struct Parcel {
  char byte = 0;
  iovec part{&byte, 1};
  alignas(cmsghdr) char control[CMSG_SPACE(sizeof(int))]{};
  msghdr message{};

  Parcel() {
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = sizeof control;
  }
  Parcel(Parcel const&) = delete;
  Parcel& operator=(Parcel const&) = delete;
};

void send_descriptor(int socket, int descriptor) {
  Parcel parcel;
  cmsghdr* const header = CMSG_FIRSTHDR(&parcel.message);
  header->cmsg_level = SOL_SOCKET;
  header->cmsg_type = SCM_RIGHTS;
  header->cmsg_len = CMSG_LEN(sizeof descriptor);
  std::memcpy(CMSG_DATA(header), &descriptor, sizeof descriptor);
  sendmsg(socket, &parcel.message, MSG_NOSIGNAL);
}

int receive_descriptor(int socket) {
  Parcel parcel;
  if (recvmsg(socket, &parcel.message, MSG_CMSG_CLOEXEC) != 1) fail("recvmsg");
  cmsghdr const* const header = CMSG_FIRSTHDR(&parcel.message);
  if (header == nullptr) throw std::runtime_error{"the meeting sent no board"};
  int descriptor = -1;
  std::memcpy(&descriptor, CMSG_DATA(header), sizeof descriptor);
  return descriptor;
}

class Meeting {
 public:
  explicit Meeting(ncclUniqueId const& id)
      : socket_{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)}, board_{Board::create()} {
    Address const address = address_of(id);
    auto const* const name = reinterpret_cast<sockaddr const*>(&address.name);
    if (bind(socket_.get(), name, address.bytes) != 0) fail("bind");
    if (listen(socket_.get(), SOMAXCONN) != 0) fail("listen");
    thread_ = std::thread{[this] { serve(); }};
  }
  ~Meeting() {
    shutdown(socket_.get(), SHUT_RDWR);  // accept() returns
    thread_.join();
  }
  Meeting(Meeting const&) = delete;
  Meeting(Meeting&&) = delete;
  Meeting& operator=(Meeting const&) = delete;
  Meeting& operator=(Meeting&&) = delete;

 private:
  void serve() const {
    int ranks = 1;  // until the first says how many
    for (int come = 0; come < ranks; ++come) {
      int const number = accept4(socket_.get(), nullptr, nullptr, SOCK_CLOEXEC);
      if (number < 0) return;
      Descriptor const guest{number};
      if (recv(number, &ranks, sizeof ranks, MSG_WAITALL) != sizeof ranks) return;
      send_descriptor(number, board_.get());
    }
  }

  Descriptor socket_;
  Descriptor board_;
  std::thread thread_;
};

}  // namespace

ncclUniqueId new_id() {
  std::random_device random;
  char const* const address = std::getenv("NCCL_COMM_ID");
  std::string const name =
      "stagecraft-nccl-" + (address != nullptr
                                ? std::string{address}
                                : std::to_string(getpid()) + "-" + std::to_string(random()) + "-" +
                                      std::to_string(random()));
  ncclUniqueId id{};
  std::copy_n(name.begin(), std::min(name.size(), sizeof id.internal - 1), id.internal);
  return id;
}

void open_meeting(ncclUniqueId const& id) {
  static std::mutex mutex;
  static std::list<Meeting> meetings;
  std::scoped_lock const lock{mutex};
  meetings.emplace_back(id);
}

std::shared_ptr<Board> join_meeting(ncclUniqueId const& id, int ranks) {
  Descriptor const socket{::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
  Address const address = address_of(id);
  auto const* const name = reinterpret_cast<sockaddr const*>(&address.name);
  // With NCCL_COMM_ID, ranks may come before rank 0.
  auto const deadline = std::chrono::steady_clock::now() + std::chrono::seconds{20};
  while (connect(socket.get(), name, address.bytes) != 0) {
    if (std::chrono::steady_clock::now() > deadline) fail("connect");
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
  }
  timeval const patience{.tv_sec = 5, .tv_usec = 0};  // more ranks than there are get no answer
  setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof patience);
  if (send(socket.get(), &ranks, sizeof ranks, MSG_NOSIGNAL) != sizeof ranks) fail("send");
  Descriptor const board{receive_descriptor(socket.get())};
  return std::make_shared<Board>(board.get());
}

}  // namespace stagecraft::nccl_emulation
