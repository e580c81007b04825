#include "libexec/comm/communicator.hpp"
#include "libexec/comm/mpi/mpi_world.hpp"

// Replaces the MPI sources in a build without MPI.

namespace stagecraft {
namespace {

[[noreturn]] void refuse() {
  throw CommunicationError{
      "built without MPI; install an MPI with its headers (Debian: experiments/packages.sh mpi) "
      "and configure with -DWITH_MPI=ON"};
}

}  // namespace

class MpiProgress {};
class MpiWorld::RankCommunicator {};

MpiSession::MpiSession(Describe /*describe*/) {  // NOLINT(performance-unnecessary-value-param)
  refuse();
}
MpiSession::~MpiSession() = default;
RankId MpiSession::rank() const { refuse(); }
int MpiSession::size() const { refuse(); }
void MpiSession::fail(std::exception_ptr const& /*error*/) { refuse(); }
std::vector<MpiSession::Numbers> MpiSession::gather(Numbers const& /*numbers*/) { refuse(); }
std::chrono::nanoseconds MpiSession::clock_offset() { refuse(); }
void MpiSession::broadcast(std::span<std::byte> /*bytes*/) { refuse(); }

MpiWorld::MpiWorld(TrainingPlan const& /*plan*/,
                   MpiSession& /*session*/,
                   JobClock const& /*clock*/) {
  refuse();
}
MpiWorld::~MpiWorld() = default;
Communicator& MpiWorld::communicator() { refuse(); }
std::vector<MpiWorld::Numbers> MpiWorld::gather(Numbers const& /*numbers*/) { refuse(); }
std::chrono::nanoseconds MpiWorld::clock_offset() { refuse(); }

}  // namespace stagecraft
