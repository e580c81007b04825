#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <span>

#include "nccl.h"

namespace stagecraft::nccl_emulation {

/// What a rank leaves for others: who, in which communicator, on which channel, the how manieth.
struct BoardKey {
  std::uint64_t communicator = 0;
  std::uint32_t rank = 0;
  std::uint32_t channel = 0;
  std::uint64_t number = 0;

  friend bool operator==(BoardKey const&, BoardKey const&) = default;
};

/// Memory that all ranks of a job share, threads and processes, with notes in it. It has no name:
/// it is gone when the last process that maps it is, however that ends.
///
/// A process that is killed while it holds the lock leaves it to the others.
class Board {
 public:
  /// A file descriptor of a new one; the caller closes it. \throws std::runtime_error
  static int create();
  /// Keeps no descriptor. \throws std::runtime_error
  explicit Board(int descriptor);
  ~Board();
  Board(Board const&) = delete;
  Board(Board&&) = delete;
  Board& operator=(Board const&) = delete;
  Board& operator=(Board&&) = delete;

  /// Leaves a note that `readers` take; false where there is one already, which stays.
  /// \throws std::runtime_error  where the memory is full.
  bool post(BoardKey const& key, std::span<std::byte const> note, unsigned readers);
  /// The note, if it is there; valid until this reader takes it away.
  std::optional<std::span<std::byte const>> read(BoardKey const& key) const;
  bool has(BoardKey const& key) const { return read(key).has_value(); }
  /// What each reader does once: the last takes the note away.
  void take(BoardKey const& key);

 private:
  struct Shared;
  struct Note;
  struct Lock;

  Note* note_at(std::uint64_t place) const;
  std::uint64_t* link_to(BoardKey const& key) const;
  std::uint64_t allocate(unsigned size_class);

  std::byte* memory_;
  Shared* shared_;
};

class Board;

/// Names a new job. The name is that of a socket of the kind that leaves no file: a new one, or the
/// one that NCCL_COMM_ID makes for all ranks.
ncclUniqueId new_id();

/// Serves the board of a job from a thread of this process until all ranks have come, as NCCL's
/// bootstrap does; once for each id. \throws std::runtime_error
void open_meeting(ncclUniqueId const& id);

/// The board of a job; waits a moment for it. \throws std::runtime_error  if nobody serves it.
std::shared_ptr<Board> join_meeting(ncclUniqueId const& id, int ranks);

}  // namespace stagecraft::nccl_emulation
