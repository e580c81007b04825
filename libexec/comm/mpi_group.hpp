#pragma once

#include <mpi.h>

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "libexec/comm/mpi_progress.hpp"
#include "libexec/comm/thread_group.hpp"

namespace stagecraft {

/// One group of a plan as this process, a member of it, has it.
struct MpiGroup {
  MPI_Comm comm = MPI_COMM_NULL;
  int size = 1;
  int member = 0;                   ///< this process, in rank order
  std::vector<int> ranks;           ///< of the members, in their order
  Communicator::Ticket issued = 0;  ///< the rank's thread
  Communicator::Ticket turn = 0;    ///< the thread that owns MPI; collectives run one by one
  /// Where pieces of other members wait to be reduced. Like the buffers of a network card it is no
  /// part of any plan; its size does not depend on the tensors.
  std::vector<std::byte> staging;
};

/// One collective of this process.
///
/// It runs in rounds, each on a part that fits into the staging buffer. Of each part every member
/// owns a piece: it receives the piece from all others, reduces in rank order with the code of the
/// threads communicator, so with the same bits, and where all are to have the result, sends it to
/// all. Every member also says what it takes part in, so that two that disagree find out.
class MpiCollective final : public MpiOperation {
 public:
  /// Of the staging buffer; more members share it in smaller pieces.
  static constexpr std::int64_t staging_bytes = 1 << 20;

  MpiCollective(MpiGroup& group,
                Communicator::Ticket ticket,
                Collective const& collective,
                JobClock const& clock);
  Progress advance() override;
  std::string description() const override;

 private:
  /// What a member says about the collective.
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
  /// Whether all members have said what they do. \throws std::logic_error  where they disagree
  bool has_met();
  /// The piece that member `i` owns of the part of this round.
  Range piece(int i) const;
  /// Where this member's result is.
  std::byte* result() const;
  void scatter();
  void reduce();
  void gather();
  /// Starts the next round, or ends; on the way out of the round before.
  void begin_round();
  bool all_have_arrived();
  void receive(std::byte* data, std::int64_t elements, int from);
  void send(std::byte const* data, std::int64_t elements, int to);

  MpiGroup& group_;
  Communicator::Ticket ticket_;
  Collective call_;
  JobClock const& clock_;
  std::int64_t most_ = 1;  ///< elements of a piece in a round
  std::int64_t rounds_ = 0;
  std::int64_t round_ = 0;
  Stage stage_ = Stage::waits_for_turn;
  std::vector<Call> calls_;  ///< by member
  std::vector<MPI_Request> introductions_;
  std::vector<MPI_Request> requests_;
};

}  // namespace stagecraft
