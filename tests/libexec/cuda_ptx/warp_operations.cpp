// What threads of a warp do together: PTX ISA 9.0, 9.7.9.6 (shfl.sync), 9.7.13 (barriers), 9.7.14.5
// (mma.m16n8k16, ldmatrix). The places of elements in fragments are written down from there, and
// share nothing with the kernels that this is to check.
#include <array>
#include <cstring>

#include "tests/libexec/cuda_ptx/block_memory.hpp"
#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/narrow_float.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

enum class Shuffle { up, down, bfly, idx };

/// d|p, a, b, c: the value of the lane that b says, inside of the segment that c says.
template <Shuffle kind>
void shuffle(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto const* const a = warp.lanes<std::uint32_t>(one.slots[2]);
  auto const* const b = warp.lanes<std::uint32_t>(one.slots[3]);
  auto const* const c = warp.lanes<std::uint32_t>(one.slots[4]);
  std::array<std::uint32_t, warp_lanes> received{};
  std::uint32_t in_range = 0;
  for_lanes(lanes, [&](int lane) {
    int const by = static_cast<int>(b[lane] & 0x1FU);
    int const clamp = static_cast<int>(c[lane] & 0x1FU);
    int const segment = static_cast<int>(c[lane] >> 8 & 0x1FU);
    int const last = (lane & segment) | (clamp & ~segment);
    int const first = lane & segment;
    int from = 0;
    bool is_inside = false;
    switch (kind) {
      case Shuffle::up:
        from = lane - by;
        is_inside = from >= last;
        break;
      case Shuffle::down:
        from = lane + by;
        is_inside = from <= last;
        break;
      case Shuffle::bfly:
        from = lane ^ by;
        is_inside = from <= last;
        break;
      case Shuffle::idx:
        from = first | (by & ~segment);
        is_inside = from <= last;
        break;
    }
    if (!is_inside) from = lane;
    if ((lanes >> from & 1U) == 0) {
      throw Fault{"lane " + std::to_string(lane) + " reads from lane " + std::to_string(from) +
                  ", which takes no part"};
    }
    received[static_cast<std::size_t>(lane)] = a[from];
    in_range |= std::uint32_t{is_inside} << lane;
  });
  auto* const to = warp.lanes<std::uint32_t>(one.slots[0]);
  for_lanes(lanes, [&](int lane) { to[lane] = received[static_cast<std::size_t>(lane)]; });
  if (one.slots[1] != no_slot) {
    std::uint32_t& predicate = warp.predicate(one.slots[1]);
    predicate = (predicate & ~lanes) | in_range;
  }
}

void do_nothing(WarpRegisters&, Instruction const&, std::uint32_t) {}

/// Lane 8 m + r names row r of matrix m, 16 bytes. Lane l gets of each matrix the elements 2 (l %
/// 4) and 2 (l % 4) + 1 of row l / 4, or with .trans of column l / 4.
template <bool is_transposed>
void load_matrices(WarpRegisters& warp, Instruction const& one, std::uint32_t) {
  auto const* const addresses = warp.lanes<std::uint32_t>(one.slots[one.count]);
  for (std::size_t matrix = 0; matrix < one.count; ++matrix) {
    std::uint16_t rows[8][8];
    for (std::size_t row = 0; row < 8; ++row) {
      std::size_t const lane = 8 * matrix + row;
      std::uint64_t const address = addresses[lane] + static_cast<std::uint64_t>(one.offset);
      std::memcpy(rows[row],
                  warp.memory.read(Space::shared, address, 16, warp.warp, static_cast<int>(lane)),
                  16);
    }
    auto* const to = warp.lanes<std::uint32_t>(one.slots[matrix]);
    for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
      std::size_t const across = lane / 4;
      std::size_t const along = lane % 4 * 2;
      std::uint32_t const low = is_transposed ? rows[along][across] : rows[across][along];
      std::uint32_t const high = is_transposed ? rows[along + 1][across] : rows[across][along + 1];
      to[lane] = low | high << 16;
    }
  }
}

/// d [16, 8] = a [16, 16] b [16, 8] + c. Sums are exact to fp64 and rounded once; a device sums
/// with at least fp32's precision, in an order that is not said.
template <typename Format>
void multiply_matrices(WarpRegisters& warp, Instruction const& one, std::uint32_t) {
  double a[16][16];
  double b[16][8];
  auto const element = [&](std::size_t slot, std::size_t lane, std::size_t half) {
    std::uint32_t const both = warp.lanes<std::uint32_t>(one.slots[slot])[lane];
    return Format::value(half == 0 ? both & 0xFFFFU : both >> 16);
  };
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    std::size_t const group = lane / 4;
    std::size_t const in_group = lane % 4;
    for (std::size_t i = 0; i < 8; ++i) {  // a0 to a7
      std::size_t const row = i < 2 || (i >= 4 && i < 6) ? group : group + 8;
      std::size_t const column = in_group * 2 + i % 2 + (i >= 4 ? 8 : 0);
      a[row][column] = element(4 + i / 2, lane, i % 2);
    }
    for (std::size_t i = 0; i < 4; ++i) {  // b0 to b3
      std::size_t const row = in_group * 2 + i % 2 + (i >= 2 ? 8 : 0);
      b[row][group] = element(8 + i / 2, lane, i % 2);
    }
  }
  double products[16][8] = {};
  for (std::size_t row = 0; row < 16; ++row) {
    for (std::size_t k = 0; k < 16; ++k) {
      for (std::size_t column = 0; column < 8; ++column) {
        products[row][column] += a[row][k] * b[k][column];
      }
    }
  }
  for (std::size_t lane = 0; lane < warp_lanes; ++lane) {
    for (std::size_t i = 0; i < 4; ++i) {  // c0 to c3, d0 to d3
      std::size_t const row = lane / 4 + (i >= 2 ? 8 : 0);
      std::size_t const column = lane % 4 * 2 + i % 2;
      auto const c = static_cast<double>(warp.lanes<float>(one.slots[10 + i])[lane]);
      warp.lanes<float>(one.slots[i])[lane] = static_cast<float>(products[row][column] + c);
    }
  }
}

void make_shuffle(Form& form, Instruction& made) {
  form.require("sync");
  std::string const kind = form.take_one_of({"up", "down", "bfly", "idx"});
  form.require("b32");
  form.finish(5);
  made.flow = Flow::meeting;
  made.execute = kind == "up"     ? &shuffle<Shuffle::up>
                 : kind == "down" ? &shuffle<Shuffle::down>
                 : kind == "bfly" ? &shuffle<Shuffle::bfly>
                                  : &shuffle<Shuffle::idx>;
  std::string const& result = form.operand(0);
  std::size_t const bar = result.find('|');
  made.slots[0] = form.decoder().result(std::string_view{result}.substr(0, bar), 32);
  made.slots[1] = bar == std::string::npos
                      ? no_slot
                      : form.decoder().result(std::string_view{result}.substr(bar + 1), 1);
  for (std::size_t i = 1; i < 4; ++i) made.slots[1 + i] = form.value(i, 32);
  made.slots.back() = form.value(4, 32);
}

void make_barrier(Form& form, Instruction& made) {
  made.execute = &do_nothing;
  if (form.take("warp")) {
    form.require("sync");
    form.finish(1);
    made.flow = Flow::meeting;
    made.slots.back() = form.value(0, 32);
    return;
  }
  form.require("sync");
  form.finish(1);
  if (form.operand(0) != "0") form.refuse("a barrier other than 0");
  made.flow = Flow::block_barrier;
}

void make_matrix_load(Form& form, Instruction& made) {
  for (char const* const one : {"sync", "aligned", "m8n8", "shared", "b16"}) form.require(one);
  made.count = form.take("x1") ? 1 : form.take("x2") ? 2 : 4;
  if (made.count == 4) form.require("x4");
  made.execute = form.take("trans") ? &load_matrices<true> : &load_matrices<false>;
  made.flow = Flow::aligned;
  form.finish(2);
  std::vector<std::string> const results = parts_of(form.operand(0));
  if (results.size() != made.count) form.refuse("a vector of another length");
  for (std::size_t i = 0; i < results.size(); ++i) {
    made.slots[i] = form.decoder().result(results[i], 32);
  }
  AddressOperand const address = form.decoder().address(form.operand(1));
  if (address.is_wide) form.refuse("an address of 64 bits");
  made.slots[made.count] = address.slot;
  made.offset = address.offset;
}

void make_matrix_product(Form& form, Instruction& made) {
  for (char const* const one : {"sync", "aligned", "m16n8k16", "row", "col", "f32", "f32"}) {
    form.require(one);
  }
  bool const is_bf16 = form.take("bf16");
  if (is_bf16) {
    form.require("bf16");
  } else {
    form.require("f16");
    form.require("f16");
  }
  made.execute = is_bf16 ? &multiply_matrices<BFloat16Format> : &multiply_matrices<Float16Format>;
  made.flow = Flow::aligned;
  form.finish(4);
  static constexpr std::size_t lengths[] = {4, 4, 2, 4};
  std::size_t at = 0;
  for (std::size_t i = 0; i < 4; ++i) {
    std::vector<std::string> const parts = parts_of(form.operand(i));
    if (parts.size() != lengths[i]) form.refuse("a fragment of another length");
    for (std::string const& part : parts) {
      made.slots[at++] = i == 0 ? form.decoder().result(part, 32) : form.decoder().value(part, 32);
    }
  }
}

}  // namespace

bool make_warp_operation(Form& form, Instruction& made) {
  if (form.name() == "shfl") {
    make_shuffle(form, made);
  } else if (form.name() == "bar") {
    make_barrier(form, made);
  } else if (form.name() == "ldmatrix") {
    make_matrix_load(form, made);
  } else if (form.name() == "mma") {
    make_matrix_product(form, made);
  } else {
    return false;
  }
  return true;
}

}  // namespace stagecraft::ptx
