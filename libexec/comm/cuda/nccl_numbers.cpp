#include "libexec/comm/cuda/nccl_numbers.hpp"

#include <algorithm>
#include <fstream>
#include <functional>
#include <string>

#include "libexec/comm/job_session.hpp"

namespace stagecraft {
namespace {

/// The largest count of numbers, of all ranks together, that one exchange holds on a device.
constexpr std::size_t most_numbers = 1 << 16;

/// The same for all processes that share a steady clock: Linux's id of the current boot.
std::int64_t machine_number() {
  std::ifstream file{"/proc/sys/kernel/random/boot_id"};
  std::string name;
  file >> name;
  return static_cast<std::int64_t>(std::hash<std::string>{}(name));
}

}  // namespace

NcclNumbers::NcclNumbers(NcclComm& comm, int rank, int size, cudaMemPool_t pool)
    : comm_{comm},
      rank_{static_cast<std::size_t>(rank)},
      size_{static_cast<std::size_t>(size)},
      pool_{pool},
      stream_{make_stream(stream_priorities().highest)} {}

std::vector<NcclNumbers::Numbers> NcclNumbers::all_gather(Numbers const& own) {
  return exchange(own, true);
}

std::vector<NcclNumbers::Numbers> NcclNumbers::gather(Numbers const& own) {
  return exchange(own, rank_ == 0);
}

std::chrono::nanoseconds NcclNumbers::clock_offset() {
  std::int64_t const machine = machine_number();
  bool const is_near = exchange_equal({&machine, 1}, 1).front() == machine;
  auto const offset = offset_of_clock([this] {
    std::int64_t const nothing = 0;
    exchange_equal({&nothing, 1}, 1);  // rank 0 reads its clock after all have asked
    std::int64_t const now = nanoseconds_now();
    return exchange_equal({&now, 1}, 1).front();
  });
  return is_near ? std::chrono::nanoseconds{0} : offset;
}

std::vector<NcclNumbers::Numbers> NcclNumbers::exchange(Numbers const& own, bool keeps) {
  auto const length = static_cast<std::int64_t>(own.size());
  Numbers const lengths = exchange_equal({&length, 1}, 1);
  auto const longest = static_cast<std::size_t>(*std::max_element(lengths.begin(), lengths.end()));
  std::size_t const part = std::max<std::size_t>(most_numbers / size_, 1);
  std::vector<Numbers> all(keeps ? size_ : 0);
  for (std::size_t begin = 0; begin < longest; begin += part) {
    std::size_t const count = std::min(part, longest - begin);
    auto const rest = std::span{own}.subspan(std::min(begin, own.size()));
    Numbers const parts = exchange_equal(rest.first(std::min(count, rest.size())), count);
    for (std::size_t i = 0; i < all.size(); ++i) {
      auto const missing = static_cast<std::size_t>(lengths[i]) - all[i].size();
      auto const first = parts.begin() + static_cast<std::ptrdiff_t>(i * count);
      all[i].insert(all[i].end(), first,
                    first + static_cast<std::ptrdiff_t>(std::min(missing, count)));
    }
  }
  return all;
}

NcclNumbers::Numbers NcclNumbers::exchange_equal(std::span<std::int64_t const> own,
                                                 std::size_t count) {
  Numbers all(count * size_);
  void* memory = nullptr;
  check(cudaMallocFromPoolAsync(&memory, all.size() * sizeof(std::int64_t), pool_, stream_.get()),
        "cudaMallocFromPoolAsync");
  auto* const buffer = static_cast<std::int64_t*>(memory);
  auto* const place = buffer + rank_ * count;
  check(cudaMemcpyAsync(place, own.data(), own.size_bytes(), cudaMemcpyHostToDevice, stream_.get()),
        "cudaMemcpyAsync");
  comm_.group("ncclAllGather", [&] {
    check(ncclAllGather(place, buffer, count, ncclInt64, comm_.get(), stream_.get()),
          "ncclAllGather");
  });
  check(cudaMemcpyAsync(all.data(), buffer, all.size() * sizeof(std::int64_t),
                        cudaMemcpyDeviceToHost, stream_.get()),
        "cudaMemcpyAsync");
  check(cudaFreeAsync(memory, stream_.get()), "cudaFreeAsync");
  check(cudaStreamSynchronize(stream_.get()), "cudaStreamSynchronize");
  return all;
}

}  // namespace stagecraft
