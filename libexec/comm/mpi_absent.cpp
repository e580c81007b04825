#include "libexec/comm/communication_error.hpp"
#include "libexec/comm/mpi_session.hpp"
#include "libexec/comm/mpi_world.hpp"

// What a build without MPI has instead of it.

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
int MpiSession::rank() const { refuse(); }
int MpiSession::size() const { refuse(); }
void MpiSession::fail(std::exception_ptr const& /*error*/) { refuse(); }
std::vector<std::vector<std::int64_t>> MpiSession::gather(
    std::vector<std::int64_t> const& /*numbers*/) {
  refuse();
}
JobSession::Numbers MpiSession::scatter(std::vector<Numbers> const& /*parts*/) { refuse(); }
std::chrono::nanoseconds MpiSession::clock_offset() { refuse(); }

MpiWorld::MpiWorld(TrainingPlan const& /*plan*/,
                   MpiSession& /*session*/,
                   JobClock const& /*clock*/) {
  refuse();
}
MpiWorld::~MpiWorld() = default;
Communicator& MpiWorld::communicator() { refuse(); }

}  // namespace stagecraft
