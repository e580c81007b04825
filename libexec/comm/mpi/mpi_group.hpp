#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "libexec/comm/collectives.hpp"
#include "libexec/comm/mpi/mpi_progress.hpp"
#include "libexec/comm/thread_world.hpp"

namespace stagecraft {

/// A group of the plan as one of its members, this process, has it.
struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  int size = 1;
  int member = 0;                   ///< index of this process in `ranks`
  std::vector<RankId> ranks;        ///< of the members, ascending
  Communicator::Ticket issued = 0;  ///< collectives issued; used by the rank's thread
  Communicator::Ticket turn = 0;    ///< the one that may run; used by the thread that owns MPI
  /// Holds pieces of other members until they are reduced. It is not part of the plan, just as the
  /// buffers of a network card are not; its size does not depend on the tensors.
  std::vector<std::byte> staging;
};

/// One collective of this process.
///
/// It runs in rounds, each on a part of the tensor that fits into the staging buffer. Every member
/// owns a piece of that part: it receives the piece from all others, reduces it in rank order with
/// the code of the threads communicator, hence to the same bits, and sends the result to all if all
/// need it. Of a prefix_reduce every member receives the tensors of those whose reduction it gets,
/// and reduces them itself, so that it waits for no others. Every member also sends a description
/// of its collective, so that disagreements are found.
class MpiCollective final : public MpiOperation {
 public:
  /// The size of the staging buffer. With more members, pieces are smaller.
  static constexpr std::int64_t staging_bytes = 1 << 20;

  MpiCollective(MpiGroup& group,
                Communicator::Ticket ticket,
                Collective const& collective,
                JobClock const& clock,
                std::shared_ptr<MpiCollective const> after = nullptr);
  Progress advance() override;
  std::string description() const override;

 private:
  /// A member's description of the collective.
  struct Call {
    Collective collective;
    Communicator::Ticket ticket = 0;
  };
  /// Elements of the whole tensor.
  struct Range {
    std::int64_t begin = 0;
    std::int64_t end = 0;
    std::int64_t count() const { return end - begin; }
  };
  enum class Stage : std::uint8_t { waits_for_turn, scatters, gathers, agrees };

  void introduce();
  /// Whether the descriptions of all members have arrived. \throws std::logic_error  if they differ
  bool has_met();
  /// The piece that member `i` owns of the part of this round.
  Range piece(int i) const;
  /// The address of this member's result.
  std::byte* result() const;
  void scatter();
  void reduce();
  void gather();
  /// What this member sends to another one, and what it receives, in all rounds together.
  std::optional<MovedPart> sent_to(int i) const;
  std::optional<MovedPart> received_from(int i) const;
  /// The elements of a part that this round sends or receives.
  MovedPart of_round(MovedPart const& part) const;
  /// Kinds that do not compute: sends and receives this round's part of all moves.
  void exchange();
  /// prefix_reduce: sends the tensor to all members that need it.
  void hand_on();
  /// Whether this member needs what another one has.
  bool needs(int i) const { return i < first_needing(group_.member) + call_.members_together; }
  /// Whether another member needs what this one has.
  bool is_needed_by(int i) const { return i >= first_needing(group_.member); }
  /// The first of the consecutive members that get one result together with member `i`.
  int first_needing(int i) const { return i - i % call_.members_together; }
  /// Starts the next round, or ends if there is none.
  void begin_round();
  bool all_have_arrived();
  void receive(std::byte* data, std::int64_t elements, int from);
  void send(std::byte const* data, std::int64_t elements, int to);

  MpiGroup& group_;
  Communicator::Ticket ticket_;
  Collective call_;
  JobClock const& clock_;
  std::shared_ptr<MpiCollective const> after_;  ///< null: it follows no other
  bool is_over_ = false;                        ///< used by the thread that owns MPI
  std::int64_t most_ = 1;                       ///< largest number of elements of a piece
  std::int64_t rounds_ = 0;
  std::int64_t round_ = 0;
  Stage stage_ = Stage::waits_for_turn;
  std::vector<Call> calls_;  ///< by member
  std::vector<MPI_Request> introductions_;
  std::vector<MPI_Request> requests_;
};

}  // namespace stagecraft
