#include "tests/libexec/nccl_emulation/board.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <algorithm>
#include <bit>
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

#include "tests/libexec/nccl_emulation/call.hpp"

namespace stagecraft::nccl_emulation {
namespace {

/// Of addresses: the memory comes as it is used.
constexpr std::size_t capacity = std::size_t{4} << 30U;
constexpr std::size_t buckets = 1024;
constexpr unsigned size_classes = 40;
constexpr std::size_t smallest = 256;

std::uint64_t hash(BoardKey const& key) {
  std::uint64_t mixed = key.communicator;
  for (std::uint64_t const part :
       {std::uint64_t{key.rank}, std::uint64_t{key.channel}, key.number}) {
    mixed = (mixed ^ part) * 0x9E3779B97F4A7C15U;
    mixed ^= mixed >> 29U;
  }
  return mixed;
}

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

/// Places are offsets: processes map the memory anywhere. 0: none.
struct Board::Shared {
  pthread_mutex_t mutex;
  std::uint64_t end;  ///< of what was ever used
  std::uint64_t free[size_classes];
  std::uint64_t first[buckets];
};

struct alignas(64) Board::Note {
  std::uint64_t next;
  BoardKey key;
  std::uint64_t bytes;
  unsigned readers;
  unsigned size_class;
};

struct Board::Lock {
  explicit Lock(Board const& board) : mutex{&board.shared_->mutex} {
    if (pthread_mutex_lock(mutex) == EOWNERDEAD) pthread_mutex_consistent(mutex);
  }
  ~Lock() { pthread_mutex_unlock(mutex); }
  Lock(Lock const&) = delete;
  Lock(Lock&&) = delete;
  Lock& operator=(Lock const&) = delete;
  Lock& operator=(Lock&&) = delete;
  pthread_mutex_t* mutex;
};

int Board::create() {
  int const descriptor = memfd_create("stagecraft-nccl-emulation", MFD_CLOEXEC);
  if (descriptor < 0) fail("memfd_create");
  if (ftruncate(descriptor, static_cast<off_t>(capacity)) != 0) fail("ftruncate");
  Board const board{descriptor};
  pthread_mutexattr_t attributes;
  pthread_mutexattr_init(&attributes);
  pthread_mutexattr_setpshared(&attributes, PTHREAD_PROCESS_SHARED);
  pthread_mutexattr_setrobust(&attributes, PTHREAD_MUTEX_ROBUST);
  pthread_mutex_init(&board.shared_->mutex, &attributes);
  pthread_mutexattr_destroy(&attributes);
  board.shared_->end = (sizeof(Shared) + smallest - 1) / smallest * smallest;
  return descriptor;
}

Board::Board(int descriptor) {
  void* const mapped =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_NORESERVE, descriptor, 0);
  if (mapped == MAP_FAILED) fail("mmap");
  memory_ = static_cast<std::byte*>(mapped);
  shared_ = static_cast<Shared*>(mapped);
}

Board::~Board() { munmap(memory_, capacity); }

Board::Note* Board::note_at(std::uint64_t place) const {
  return reinterpret_cast<Note*>(memory_ + place);
}

/// What leads to a note, or to where it would be.
std::uint64_t* Board::link_to(BoardKey const& key) const {
  std::uint64_t* link = &shared_->first[hash(key) % buckets];
  while (*link != 0 && !(note_at(*link)->key == key)) link = &note_at(*link)->next;
  return link;
}

std::uint64_t Board::allocate(unsigned size_class) {
  std::uint64_t const place = shared_->free[size_class];
  if (place != 0) {
    shared_->free[size_class] = note_at(place)->next;
    return place;
  }
  std::size_t const bytes = smallest << size_class;
  if (shared_->end + bytes > capacity) throw std::runtime_error{"the board is full"};
  std::uint64_t const fresh = shared_->end;
  shared_->end += bytes;
  return fresh;
}

bool Board::post(BoardKey const& key, std::span<std::byte const> note, unsigned readers) {
  if (readers == 0) return true;
  std::size_t const bytes = sizeof(Note) + note.size();
  auto const size_class =
      static_cast<unsigned>(std::bit_width((bytes + smallest - 1) / smallest - 1));
  Lock const lock{*this};
  std::uint64_t* const link = link_to(key);
  if (*link != 0) return false;
  std::uint64_t const place = allocate(size_class);
  *note_at(place) = {0, key, note.size(), readers, size_class};
  if (!note.empty()) std::memcpy(memory_ + place + sizeof(Note), note.data(), note.size());
  *link = place;
  return true;
}

std::optional<std::span<std::byte const>> Board::read(BoardKey const& key) const {
  Lock const lock{*this};
  std::uint64_t const place = *link_to(key);
  if (place == 0) return std::nullopt;
  return std::span<std::byte const>{memory_ + place + sizeof(Note), note_at(place)->bytes};
}

void Board::take(BoardKey const& key) {
  Lock const lock{*this};
  std::uint64_t* const link = link_to(key);
  std::uint64_t const place = *link;
  if (place == 0) throw std::logic_error{"a note is taken that is not there"};
  Note& note = *note_at(place);
  if (--note.readers > 0) return;
  *link = note.next;
  note.next = shared_->free[note.size_class];
  shared_->free[note.size_class] = place;
}

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
