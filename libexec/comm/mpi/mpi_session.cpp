#include "libexec/comm/mpi/mpi_session.hpp"

#include <algorithm>
#include <array>
#include <utility>

#include "libexec/comm/job_session.hpp"
#include "libexec/comm/mpi/mpi_progress.hpp"

namespace stagecraft {
namespace {

using std::chrono::nanoseconds;

/// The largest number of numbers in one message, because MPI counts with int.
constexpr std::int64_t most_numbers = 1 << 26;

void send_numbers(int to, std::vector<std::int64_t> const& numbers) {
  auto const count = static_cast<std::int64_t>(numbers.size());
  check(MPI_Send(&count, 1, MPI_INT64_T, to, 0, MPI_COMM_WORLD));
  for (std::int64_t at = 0; at < count; at += most_numbers) {
    int const part = static_cast<int>(std::min(most_numbers, count - at));
    check(MPI_Send(numbers.data() + at, part, MPI_INT64_T, to, 0, MPI_COMM_WORLD));
  }
}

std::vector<std::int64_t> receive_numbers(int from) {
  std::int64_t count = 0;
  check(MPI_Recv(&count, 1, MPI_INT64_T, from, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  std::vector<std::int64_t> numbers(static_cast<std::size_t>(count));
  for (std::int64_t at = 0; at < count; at += most_numbers) {
    int const part = static_cast<int>(std::min(most_numbers, count - at));
    check(MPI_Recv(numbers.data() + at, part, MPI_INT64_T, from, 0, MPI_COMM_WORLD,
                   MPI_STATUS_IGNORE));
  }
  return numbers;
}

/// Whether this process runs on the machine of rank 0.
bool is_with_first() {
  using Name = std::array<char, MPI_MAX_PROCESSOR_NAME>;
  Name own{};
  int length = 0;
  check(MPI_Get_processor_name(own.data(), &length));
  Name first = own;
  check(MPI_Bcast(first.data(), static_cast<int>(first.size()), MPI_CHAR, 0, MPI_COMM_WORLD));
  return own == first;
}

/// Rank 0 answers the questions for its time.
void tell_time(int to) {
  for (int i = 0; i < time_questions; ++i) {
    check(MPI_Recv(nullptr, 0, MPI_BYTE, to, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
    std::int64_t const now = nanoseconds_now();
    check(MPI_Send(&now, 1, MPI_INT64_T, to, 0, MPI_COMM_WORLD));
  }
}

std::int64_t ask_time() {
  std::int64_t theirs = 0;
  check(MPI_Send(nullptr, 0, MPI_BYTE, 0, 0, MPI_COMM_WORLD));
  check(MPI_Recv(&theirs, 1, MPI_INT64_T, 0, 0, MPI_COMM_WORLD, MPI_STATUS_IGNORE));
  return theirs;
}

}  // namespace

MpiSession::MpiSession(Describe describe)
    : describe_{std::move(describe)}, progress_{std::make_unique<MpiProgress>()} {}
MpiSession::~MpiSession() = default;

RankId MpiSession::rank() const { return RankId{progress_->rank()}; }
int MpiSession::size() const { return progress_->size(); }

void MpiSession::fail(std::exception_ptr const& error) {
  ErrorReport const report = describe_(error);
  progress_->fail(report.exit_code, report.reason);
}

std::vector<MpiSession::Numbers> MpiSession::gather(Numbers const& numbers) {
  std::vector<Numbers> all;
  progress_->run([&] {
    if (rank() != RankId{0}) return send_numbers(0, numbers);
    all.push_back(numbers);
    for (int i = 1; i < size(); ++i) all.push_back(receive_numbers(i));
  });
  return all;
}

void MpiSession::broadcast(std::span<std::byte> bytes) {
  progress_->run([&] {
    check(MPI_Bcast(bytes.data(), static_cast<int>(bytes.size()), MPI_BYTE, 0, MPI_COMM_WORLD));
  });
}

nanoseconds MpiSession::clock_offset() {
  nanoseconds offset{0};
  progress_->run([&] {
    bool const is_near = is_with_first();
    if (rank() == RankId{0}) {
      for (int i = 1; i < size(); ++i) tell_time(i);
      return;
    }
    offset = offset_of_clock(ask_time);
    if (is_near) offset = nanoseconds{0};
  });
  return offset;
}

}  // namespace stagecraft
