// Collectives and messages of NcclComm between processes with an emulated device each, of every
// type and cut. Rank 0 says "all as expected", or the job ends with what is wrong.
//
// usage: nccl_collectives, as each of several processes with torchrun's variables

#include <cuda_runtime_api.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libexec/comm/collectives.hpp"
#include "libexec/comm/cuda/device_call.hpp"
#include "libexec/comm/cuda/nccl_comm.hpp"
#include "libexec/comm/cuda/nccl_numbers.hpp"
#include "libexec/comm/cuda/nccl_world.hpp"
#include "libexec/comm/host_reduction.hpp"
#include "libexec/comm/process_environment.hpp"
#include "libexec/kernels/cuda/cuda_handles.hpp"
#include "tests/libexec/comm/process_runs.hpp"

namespace stagecraft {
namespace {

using Values = std::vector<double>;

template <typename T>
std::vector<std::byte> bytes_of(std::vector<T> const& values) {
  auto const bytes = std::as_bytes(std::span{values});
  return {bytes.begin(), bytes.end()};
}
template <typename T>
Values numbers_in(std::vector<std::byte> const& bytes) {
  std::vector<T> values(bytes.size() / sizeof(T));
  std::memcpy(values.data(), bytes.data(), bytes.size());
  return {values.begin(), values.end()};
}

/// Numbers as they are stored, whole ones too, and back.
std::vector<std::byte> stored(Values const& values, ElementType type) {
  if (type == ElementType::u8) return bytes_of<std::uint8_t>({values.begin(), values.end()});
  if (type == ElementType::i32) return bytes_of<std::int32_t>({values.begin(), values.end()});
  return encode(values, type);
}
Values loaded(std::vector<std::byte> const& bytes, ElementType type) {
  if (type == ElementType::u8) return numbers_in<std::uint8_t>(bytes);
  if (type == ElementType::i32) return numbers_in<std::int32_t>(bytes);
  return decode(bytes, type);
}

/// A tensor on the device. Copies wait for all that was enqueued.
class Tensor {
 public:
  Tensor(ElementType type, std::int64_t elements) : type_{type}, elements_{elements} {
    check(cudaMalloc(&data_, std::max<std::size_t>(bytes(), 1)), "cudaMalloc");
  }
  ~Tensor() { cudaFree(data_); }
  Tensor(Tensor const&) = delete;
  Tensor(Tensor&&) = delete;
  Tensor& operator=(Tensor const&) = delete;
  Tensor& operator=(Tensor&&) = delete;

  void* data() const { return data_; }
  void* at(std::int64_t element) const { return element_at(data_, element, type_); }
  void write(Values const& values) const {
    std::vector<std::byte> const own = stored(values, type_);
    check(cudaMemcpy(data_, own.data(), own.size(), cudaMemcpyHostToDevice), "cudaMemcpy");
  }
  Values read() const {
    check(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
    std::vector<std::byte> own(bytes());
    check(cudaMemcpy(own.data(), data_, own.size(), cudaMemcpyDeviceToHost), "cudaMemcpy");
    return loaded(own, type_);
  }

 private:
  std::size_t bytes() const { return static_cast<std::size_t>(elements_ * element_size(type_)); }

  ElementType type_;
  std::int64_t elements_;
  void* data_ = nullptr;
};

/// What a member has: whole numbers, whose sums are exact in every type.
double number_of(int member, std::int64_t i) {
  return static_cast<double>((7 * i + 3 * member) % 11) - 5;
}
Values numbers_of(int member, std::int64_t count) {
  Values values;
  for (std::int64_t i = 0; i < count; ++i) values.push_back(number_of(member, i));
  return values;
}
Values reduced(int members, std::int64_t count, Reduction reduction) {
  Values values = numbers_of(0, count);
  for (std::int64_t i = 0; i < count; ++i) {
    double& value = values[static_cast<std::size_t>(i)];
    for (int member = 1; member < members; ++member) {
      double const next = number_of(member, i);
      value = reduction == Reduction::sum ? value + next : std::max(value, next);
    }
  }
  return values;
}

/// What one rank's checks need.
struct Place {
  NcclComm& comm;
  int rank;
  int size;
  DeviceCall on_device;
};

/// `all`, but for where this member's piece is not: there `otherwise`.
Values own_piece(Collective const& call, Place const& place, Values const& all, Values otherwise) {
  auto const begin = static_cast<std::ptrdiff_t>(call.piece_begin(place.rank));
  auto const end = static_cast<std::ptrdiff_t>(call.piece_begin(place.rank + 1));
  std::copy(all.begin() + begin, all.begin() + end, otherwise.begin() + begin);
  return otherwise;
}

void check_collectives(Place const& place, Collective call, std::string const& what) {
  auto const run = [&](OpKind kind, void const* source, void* target) {
    call.kind = kind;
    call.source = source;
    call.target = target;
    enqueue_collective(place.comm, place.rank, place.size, call);
  };
  std::int64_t const own = call.piece_begin(place.rank);
  Values const mine = numbers_of(place.rank, call.elements);
  Values const all = reduced(place.size, call.elements, call.reduction);
  Values const nothing(mine.size());
  Tensor const source{call.type, call.elements};
  Tensor const target{call.type, call.elements};
  source.write(mine);
  target.write(nothing);
  run(OpKind::all_reduce, source.data(), target.data());
  require(target.read() == all, "all-reduce" + what);
  run(OpKind::all_reduce, source.data(), source.data());
  require(source.read() == all, "all-reduce in place" + what);
  source.write(mine);
  target.write(nothing);
  run(OpKind::reduce_scatter, source.data(), target.at(own));
  require(target.read() == own_piece(call, place, all, nothing), "reduce-scatter" + what);
  run(OpKind::all_gather, target.at(own), target.data());
  require(target.read() == all, "all-gather in place" + what);
  run(OpKind::reduce_scatter, source.data(), source.at(own));
  require(source.read() == own_piece(call, place, all, mine), "reduce-scatter in place" + what);
  target.write(nothing);
  run(OpKind::all_gather, source.at(own), target.data());
  require(target.read() == all, "all-gather" + what);
}

void check_every_type_and_cut(Place const& place) {
  for (ElementType const type :
       {ElementType::f16, ElementType::bf16, ElementType::f32, ElementType::f64}) {
    for (Reduction const reduction : {Reduction::sum, Reduction::maximum}) {
      for (std::int64_t const count : {1, 3, 24, 1000}) {
        Collective call{
            .reduction = reduction, .type = type, .elements = count, .on_device = &place.on_device};
        std::string const what = " of " + std::to_string(count) + " elements";
        // The last piece short or empty; then the first one short, too.
        call.piece = (count + place.size - 1) / place.size;
        check_collectives(place, call, what);
        call.origin = count / 10 + 1;
        call.piece = (count + call.origin + place.size - 1) / place.size;
        check_collectives(place, call, what + " with an origin");
      }
    }
  }
}

/// What member `from` sends to member `to` of an uneven exchange; some send nothing.
std::int64_t sent_by(int from, int to) { return (3 * from + 2 * to) % 5; }

/// Pieces of different sizes, some of them empty, as ranks with experts exchange them.
void check_uneven_pieces(Place const& place, ElementType type) {
  std::vector<std::int64_t> sent, received, pieces;
  for (int member = 0; member < place.size; ++member) {
    sent.push_back(sent_by(place.rank, member));
    received.push_back(sent_by(member, place.rank));
    pieces.push_back(member == 1 ? 0 : 2 * member + 1);
  }
  auto const sum = [](std::vector<std::int64_t> const& sizes) {
    return std::accumulate(sizes.begin(), sizes.end(), std::int64_t{0});
  };
  // Whole numbers that every type has, bytes too.
  auto const value = [](int member, std::int64_t i) {
    return static_cast<double>((7 * i + 3 * member) % 11);
  };
  auto const values = [&](int member, std::int64_t first, std::int64_t count) {
    Values all;
    for (std::int64_t i = first; i < first + count; ++i) all.push_back(value(member, i));
    return all;
  };
  std::string const what = " of uneven pieces of " + std::string{name_of(type)};
  Collective call{.type = type, .on_device = &place.on_device};
  auto const run = [&](OpKind kind, void const* source, void* target) {
    call.kind = kind;
    call.source = source;
    call.target = target;
    enqueue_collective(place.comm, place.rank, place.size, call);
  };
  {
    Tensor const source{type, sum(sent)};
    Tensor const target{type, sum(received)};
    source.write(values(place.rank, 0, sum(sent)));
    call.sent = sent.data();
    call.received = received.data();
    run(OpKind::all_to_all, source.data(), target.data());
    Values expected;
    for (int member = 0; member < place.size; ++member) {
      std::int64_t first = 0;
      for (int before = 0; before < place.rank; ++before) first += sent_by(member, before);
      Values const piece = values(member, first, sent_by(member, place.rank));
      expected.insert(expected.end(), piece.begin(), piece.end());
    }
    require(target.read() == expected, "all-to-all" + what);
  }
  call.sent = call.received = nullptr;
  call.pieces = pieces.data();
  // There is room for more than there is.
  call.elements = sum(pieces) + 3;
  Tensor const whole{type, call.elements};
  Tensor const part{type, pieces[static_cast<std::size_t>(place.rank)]};
  Values const nothing(static_cast<std::size_t>(call.elements));
  whole.write(nothing);
  part.write(values(place.rank, 0, pieces[static_cast<std::size_t>(place.rank)]));
  run(OpKind::all_gather, part.data(), whole.data());
  Values expected;
  for (int member = 0; member < place.size; ++member) {
    Values const piece = values(member, 0, pieces[static_cast<std::size_t>(member)]);
    expected.insert(expected.end(), piece.begin(), piece.end());
  }
  expected.resize(nothing.size());
  require(whole.read() == expected, "all-gather" + what);
  if (type == ElementType::u8 || type == ElementType::i32) return;  // which are not reduced
  whole.write(values(place.rank, 0, call.elements));
  run(OpKind::reduce_scatter, whole.data(), part.data());
  Values sums;
  std::int64_t const begin = call.piece_begin(place.rank);
  for (std::int64_t i = begin; i < call.piece_begin(place.rank + 1); ++i) {
    double total = 0;
    for (int member = 0; member < place.size; ++member) total += value(member, i);
    sums.push_back(total);
  }
  require(part.read() == sums, "reduce-scatter" + what);
}

/// Halves of a job, in backward order of their ranks.
void check_split(Place const& place) {
  auto half = place.comm.split(place.rank % 2, -place.rank);
  require(half.has_value() && !place.comm.split(std::nullopt, 0), "a split");
  int const size = place.size / 2;
  int const own = (place.size - 1 - place.rank) / 2;
  Tensor const all{ElementType::f32, size};
  Tensor const one{ElementType::f32, 1};
  one.write({static_cast<double>(place.rank)});
  Collective call{.kind = OpKind::all_gather,
                  .type = ElementType::f32,
                  .source = one.data(),
                  .target = all.data(),
                  .elements = size,
                  .piece = 1,
                  .on_device = &place.on_device};
  enqueue_collective(*half, own, size, call);
  Values expected;
  for (int rank = place.size - 1; rank >= 0; --rank) {
    if (rank % 2 == place.rank % 2) expected.push_back(rank);
  }
  require(all.read() == expected, "ranks of a half");
  half->begin_close();
  half->close();
}

/// Each rank to the next, one message after another.
void check_messages(Place const& place) {
  constexpr int messages = 20;
  Tensor const sent{ElementType::f32, messages};
  Tensor const received{ElementType::f32, messages};
  sent.write(numbers_of(place.rank, messages));
  int const next = (place.rank + 1) % place.size;
  int const previous = (place.rank + place.size - 1) % place.size;
  for (int i = 0; i < messages; ++i) {
    place.comm.group("messages", [&] {
      check(ncclSend(sent.at(i), sizeof(float), ncclUint8, next, place.comm.get(),
                     place.on_device.stream),
            "ncclSend");
      check(ncclRecv(received.at(i), sizeof(float), ncclUint8, previous, place.comm.get(),
                     place.on_device.stream),
            "ncclRecv");
    });
  }
  require(received.read() == numbers_of(previous, messages), "messages");
}

/// Ranks 2k and 2k + 1 add.
void check_host_reductions(NcclNumbers& numbers, Place const& place) {
  auto const all_gather = [&](auto const& own) { return numbers.all_gather(own); };
  int const first = place.rank / 2 * 2;
  std::vector<std::int64_t> sums{place.rank, std::int64_t{1} << 60};
  reduce_in_host_memory({.type = ElementType::i64,
                         .source = sums.data(),
                         .target = sums.data(),
                         .elements = 2,
                         .in_host_memory = true},
                        {RankId{first}, RankId{first + 1}}, place.rank - first, all_gather);
  require(sums == std::vector<std::int64_t>{2 * first + 1, std::int64_t{1} << 61}, "pair's sum");
  auto largest = static_cast<float>(place.rank);
  std::vector<RankId> everyone;
  for (RankId const rank : IdRange<RankId>{place.size}) everyone.push_back(rank);
  reduce_in_host_memory({.reduction = Reduction::maximum,
                         .source = &largest,
                         .target = &largest,
                         .elements = 1,
                         .in_host_memory = true},
                        everyone, place.rank, all_gather);
  require(largest == static_cast<float>(place.size - 1), "maximum");
  // Of two members in a stage, both have the sum up to the second one.
  std::int64_t const own = place.rank + 1;
  std::int64_t sum = 0;
  reduce_in_host_memory({.kind = OpKind::prefix_reduce,
                         .type = ElementType::i64,
                         .source = &own,
                         .target = &sum,
                         .elements = 1,
                         .members_together = 2,
                         .in_host_memory = true},
                        everyone, place.rank, all_gather);
  std::int64_t const members = first + 2;
  require(sum == members * (members + 1) / 2, "prefix sum");
}

void check_host_numbers(Place const& place) {
  CudaPool const pool = make_keeping_pool(0);
  NcclNumbers numbers{place.comm, place.rank, place.size, pool.get()};
  using Numbers = NcclNumbers::Numbers;
  // More than one exchange of the longest takes, and none of rank 0.
  auto const of_rank = [](std::size_t rank) {
    return Numbers(rank * 100'000, static_cast<std::int64_t>(rank));
  };
  auto const all = numbers.gather(of_rank(static_cast<std::size_t>(place.rank)));
  require(all.size() == static_cast<std::size_t>(place.rank == 0 ? place.size : 0), "gathered");
  for (std::size_t i = 0; i < all.size(); ++i) require(all[i] == of_rank(i), "gathered numbers");
  require(numbers.clock_offset() == std::chrono::nanoseconds{0}, "clocks of one machine");
  check_host_reductions(numbers, place);
}

void check_all(LaunchedProcess const& session) {
  // Every rank makes the same id of it.
  setenv("NCCL_COMM_ID", session.place().address.c_str(), 1);
  ncclUniqueId id{};
  check(ncclGetUniqueId(&id), "ncclGetUniqueId");
  NcclComm comm{id, session.size(), session.rank().value(), std::chrono::seconds{60}};
  CudaStream const stream = make_stream(0);
  Place const place{comm, session.rank().value(), session.size(), {.stream = stream.get()}};
  check_every_type_and_cut(place);
  for (ElementType const type :
       {ElementType::u8, ElementType::i32, ElementType::bf16, ElementType::f32, ElementType::f64}) {
    check_uneven_pieces(place, type);
  }
  check_split(place);
  check_messages(place);
  check_host_numbers(place);
  comm.begin_close();
  comm.close();
  if (session.rank() == RankId{0}) std::cout << "all as expected\n";
}

}  // namespace
}  // namespace stagecraft

int main() {
  using namespace stagecraft;
  prepare_nccl();
  LaunchedProcess session{find_process({}, from_environment), report_of};
  try {
    check_all(session);
    return 0;
  } catch (...) {
    session.fail(std::current_exception());
  }
}
