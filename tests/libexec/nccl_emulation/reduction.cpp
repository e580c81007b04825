#include "tests/libexec/nccl_emulation/reduction.hpp"

#include <algorithm>
#include <cstring>
#include <numeric>
#include <stdexcept>
#include <vector>

#include "libexec/kernels/element.hpp"
#include "tests/libexec/cuda_emulation/random_order.hpp"

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

}  // namespace stagecraft::nccl_emulation
