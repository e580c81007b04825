#include "tests/libexec/nccl_emulation/launch.hpp"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "tests/libexec/cuda_emulation/schedule.hpp"
#include "tests/libexec/nccl_emulation/call.hpp"

namespace stagecraft::nccl_emulation {
namespace {

/// Elements that are summed in one order.
constexpr std::size_t piece = 64;

std::int64_t wide(std::int64_t x) { return x; }
std::uint8_t wide(std::uint8_t x) { return x; }
template <typename Element>
auto wide(Element x) {
  return widen(x);
}

void narrow(float x, Float16& to) { to = to_float16(x); }
void narrow(float x, BFloat16& to) { to = to_bfloat16(x); }
template <typename Element>
void narrow(Element x, Element& to) {
  to = x;
}

template <typename Element>
void reduce_typed(ncclRedOp_t reduction,
                  std::span<std::byte const* const> sources,
                  std::vector<std::size_t> const& order,
                  std::size_t count,
                  void* target) {
  auto const element = [&](std::size_t rank, std::size_t i) {
    Element value;
    std::memcpy(static_cast<void*>(&value), sources[rank] + i * sizeof value, sizeof value);
    return wide(value);
  };
  for (std::size_t i = 0; i < count; ++i) {
    std::size_t const turn = i / piece;
    auto value = element(order[turn % order.size()], i);
    for (std::size_t k = 1; k < order.size(); ++k) {
      auto const next = element(order[(turn + k) % order.size()], i);
      value =
          reduction == ncclMax ? std::max(value, next) : static_cast<decltype(value)>(value + next);
    }
    Element result;
    narrow(value, result);
    std::memcpy(static_cast<std::byte*>(target) + i * sizeof result, &result, sizeof result);
  }
}

using emulation::KernelFailure;
using emulation::MemoryKind;
using Kind = Call::Kind;

// Virtual time.
constexpr double start_seconds = 5e-6;
constexpr double seconds_per_byte = 1e-11;

/// What stands before the data that a rank leaves.
struct Heading {
  Call call;
  std::uint64_t draw;  ///< rank 0's decides the order of sums
};

/// How long a kernel waits for others before that is an error.
std::chrono::seconds patience() {
  constexpr int usual = 60;
  char const* const text = std::getenv("STAGECRAFT_EMULATION_NCCL_PATIENCE");
  return std::chrono::seconds{text == nullptr ? usual : std::stoi(text)};
}

bool gives_data(Call const& call, int rank) {
  return call.kind != Kind::receive && (call.kind != Kind::broadcast || call.root == rank);
}
bool gets_data(Call const& call, int rank) {
  return call.kind != Kind::send && (call.kind != Kind::reduce || call.root == rank);
}

}  // namespace

void reduce(ncclDataType_t type,
            ncclRedOp_t reduction,
            std::span<std::byte const* const> sources,
            std::size_t count,
            std::uint64_t draw,
            void* target) {
  std::vector<std::size_t> order(sources.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  emulation::RandomOrder random{draw};
  random.shuffle(order);
  switch (type) {
    case ncclUint8:
      return reduce_typed<std::uint8_t>(reduction, sources, order, count, target);
    case ncclInt32:
      break;
    case ncclInt64:
      return reduce_typed<std::int64_t>(reduction, sources, order, count, target);
    case ncclFloat16:
      return reduce_typed<Float16>(reduction, sources, order, count, target);
    case ncclBfloat16:
      return reduce_typed<BFloat16>(reduction, sources, order, count, target);
    case ncclFloat32:
      return reduce_typed<float>(reduction, sources, order, count, target);
    case ncclFloat64:
      return reduce_typed<double>(reduction, sources, order, count, target);
  }
  throw std::logic_error{"a type that is not emulated"};
}

Launch::Launch(std::shared_ptr<Communicator> comm,
               emulation::Device& device,
               std::vector<Operation> operations)
    : comm_{std::move(comm)}, device_{device}, operations_{std::move(operations)} {}

double Launch::seconds() const {
  double bytes = 0;
  for (Operation const& operation : operations_) {
    Call const& call = operation.call;
    int const ranks = comm_->place().size;
    bytes +=
        static_cast<double>(std::max(source_elements(call, ranks), target_elements(call, ranks)) *
                            element_bytes(call.type));
  }
  return start_seconds + seconds_per_byte * bytes;
}

/// What goes wrong in a kernel breaks the device, and the communicator says so, too.
template <typename Body>
auto Launch::as_kernel(Body const& body) {
  try {
    return body();
  } catch (Failure const& failure) {
    remember(failure.what());
    comm_->set_error(failure.code());
    throw KernelFailure{failure.what()};
  }
}

void Launch::begin() {
  begun_ = std::chrono::steady_clock::now();
  if (comm_->is_aborted()) return;
  as_kernel([&] {
    for (Operation const& operation : operations_) publish(operation);
  });
}

void Launch::publish(Operation const& operation) {
  Call const& call = operation.call;
  Communicator::Place const& place = comm_->place();
  if (call.kind == Kind::receive) return;
  std::size_t const bytes = gives_data(call, place.rank)
                                ? source_elements(call, place.size) * element_bytes(call.type)
                                : 0;
  if (bytes > 0 && !device_.memory.contains(operation.source, bytes, MemoryKind::device)) {
    throw Failure{ncclInvalidUsage, to_text(call) + " reads memory that was freed"};
  }
  Heading const heading{call, device_.order.next()};
  std::vector<std::byte> note(sizeof heading + bytes);
  std::memcpy(note.data(), &heading, sizeof heading);
  if (bytes > 0) std::memcpy(note.data() + sizeof heading, operation.source, bytes);
  if (call.kind == Kind::send) {
    comm_->board()->post(comm_->message_key(place.rank, call.root, operation.number), note, 1);
  } else {
    comm_->board()->post(comm_->data_key(place.rank, operation.number), note,
                         static_cast<unsigned>(place.size));
  }
}

bool Launch::go_on() {
  return as_kernel([&] {
    bool is_over = true;
    if (!comm_->is_aborted()) {
      comm_->require_no_failure();
      for (Operation& operation : operations_) {
        if (!operation.is_over) operation.is_over = finish(operation);
        is_over = is_over && operation.is_over;
      }
      if (!is_over && std::chrono::steady_clock::now() > begun_ + patience()) {
        comm_->fail_all(waiting_text());
      }
    }
    if (is_over) comm_->launch_is_over();
    return is_over;
  });
}

bool Launch::finish(Operation const& operation) {
  Communicator::Place const& place = comm_->place();
  switch (operation.call.kind) {
    case Kind::send:
      // The receiver takes it away.
      return !comm_->board()->has(
          comm_->message_key(place.rank, operation.call.root, operation.number));
    case Kind::receive:
      return receive(operation);
    default:
      return finish_collective(operation);
  }
}

bool Launch::receive(Operation const& operation) {
  int const rank = comm_->place().rank;
  Call const& own = operation.call;
  BoardKey const key = comm_->message_key(own.root, rank, operation.number);
  auto const note = comm_->board()->read(key);
  if (!note) return false;
  Heading heading;
  std::memcpy(&heading, note->data(), sizeof heading);
  if (heading.call.count != own.count || heading.call.type != own.type) {
    comm_->fail_all("message " + std::to_string(operation.number) + ": rank " +
                    std::to_string(own.root) + " has " + to_text(heading.call) + ", rank " +
                    std::to_string(rank) + " has " + to_text(own));
  }
  combine(operation, {*note});
  comm_->board()->take(key);
  return true;
}

bool Launch::finish_collective(Operation const& operation) {
  if (!comm_->all_have_called(operation.call, operation.number)) return false;
  int const ranks = comm_->place().size;
  std::vector<std::span<std::byte const>> notes;
  for (int rank = 0; rank < ranks; ++rank) {
    auto const note = comm_->board()->read(comm_->data_key(rank, operation.number));
    if (!note) return false;
    notes.push_back(*note);
  }
  combine(operation, notes);
  for (int rank = 0; rank < ranks; ++rank) {
    comm_->board()->take(comm_->data_key(rank, operation.number));
  }
  comm_->take_calls(operation.number);
  return true;
}

/// Writes what this rank gets. `notes`: of all ranks, or the sender's.
void Launch::combine(Operation const& operation,
                     std::vector<std::span<std::byte const>> const& notes) {
  Call const& call = operation.call;
  Communicator::Place const& place = comm_->place();
  if (!gets_data(call, place.rank) || call.count == 0) return;
  std::size_t const bytes = target_elements(call, place.size) * element_bytes(call.type);
  if (!device_.memory.contains(operation.target, bytes, MemoryKind::device)) {
    throw Failure{ncclInvalidUsage, to_text(call) + " writes memory that was freed"};
  }
  std::size_t const part = call.count * element_bytes(call.type);
  std::vector<std::byte const*> sources;
  for (auto const& note : notes) sources.push_back(note.data() + sizeof(Heading));
  Heading first;
  std::memcpy(&first, notes.front().data(), sizeof first);
  auto* const target = static_cast<std::byte*>(operation.target);
  auto const own = static_cast<std::size_t>(place.rank);
  switch (call.kind) {
    case Kind::reduce_scatter:
      for (std::byte const*& source : sources) source += own * part;
      [[fallthrough]];
    case Kind::all_reduce:
    case Kind::reduce:
      return reduce(call.type, call.reduction, sources, call.count, first.draw, target);
    case Kind::all_gather:
      for (std::size_t i = 0; i < sources.size(); ++i) {
        std::memcpy(target + i * part, sources[i], part);
      }
      return;
    case Kind::broadcast:
      std::memcpy(target, sources[static_cast<std::size_t>(call.root)], part);
      return;
    default:
      std::memcpy(target, sources.front(), part);
  }
}

std::string Launch::waiting_text() const {
  std::string text = "rank " + std::to_string(comm_->place().rank) + " has waited " +
                     std::to_string(patience().count()) + " s in";
  for (Operation const& operation : operations_) {
    if (!operation.is_over) text += " " + to_text(operation.call) + ",";
  }
  return text + " and others did not come";
}

}  // namespace stagecraft::nccl_emulation
