#include "tests/libexec/nccl_emulation/board.hpp"

#include <pthread.h>
#include <sys/mman.h>
#include <unistd.h>

#include <bit>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <string>

#include "tests/libexec/nccl_emulation/failure.hpp"

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

}  // namespace stagecraft::nccl_emulation
