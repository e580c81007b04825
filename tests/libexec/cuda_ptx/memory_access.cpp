// Loads and stores: PTX ISA 9.0, 9.7.9. Every access is aligned to its size, vectors as a whole.
#include <cstring>

#include "tests/libexec/cuda_ptx/block_memory.hpp"
#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

/// The address is in the slot behind the registers.
std::uint64_t address_of(WarpRegisters& warp, Instruction const& one, int lane, bool is_wide) {
  Slot const slot = one.slots[one.count];
  std::uint64_t const base =
      is_wide ? warp.lanes<std::uint64_t>(slot)[lane] : warp.lanes<std::uint32_t>(slot)[lane];
  return base + static_cast<std::uint64_t>(one.offset);
}

/// What is narrower than its register is extended by zeros, or by its sign.
std::uint64_t extended(std::byte const* from, Type type) {
  std::uint64_t bits = 0;
  auto const bytes = static_cast<std::size_t>(type.bytes());
  std::memcpy(&bits, from, bytes);
  if (type.kind == 's' && type.bits < 64 && (bits >> (type.bits - 1) & 1U) != 0) {
    bits |= ~std::uint64_t{0} << type.bits;
  }
  return bits;
}

template <bool is_wide>
void load(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto const element = static_cast<std::size_t>(one.type.bytes());
  auto const bytes = static_cast<unsigned>(element * one.count);
  for_lanes(lanes, [&](int lane) {
    std::byte const* const from =
        warp.memory.read(one.space, address_of(warp, one, lane, is_wide), bytes, warp.warp, lane);
    for (std::size_t i = 0; i < one.count; ++i) {
      std::uint64_t const bits = extended(from + i * element, one.type);
      std::size_t const wide = one.slot_bytes[i];
      std::memcpy(warp.bytes + one.slots[i] + static_cast<std::size_t>(lane) * wide, &bits, wide);
    }
  });
}

template <bool is_wide>
void store(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  auto const element = static_cast<std::size_t>(one.type.bytes());
  auto const bytes = static_cast<unsigned>(element * one.count);
  for_lanes(lanes, [&](int lane) {
    std::byte* const to =
        warp.memory.write(one.space, address_of(warp, one, lane, is_wide), bytes, warp.warp, lane);
    for (std::size_t i = 0; i < one.count; ++i) {
      std::size_t const wide = one.slot_bytes[i];
      std::memcpy(to + i * element,
                  warp.bytes + one.slots[i] + static_cast<std::size_t>(lane) * wide, element);
    }
  });
}

Space take_space(Form& form) {
  if (form.take("global")) return Space::global;
  if (form.take("shared")) return Space::shared;
  if (form.take("local")) return Space::local;
  if (form.take("param")) return Space::param;
  return Space::generic;
}

}  // namespace

bool make_memory_access(Form& form, Instruction& made) {
  bool const is_load = form.name() == "ld";
  if (!is_load && form.name() != "st") return false;
  made.space = take_space(form);
  if (is_load && made.space == Space::global) form.take("nc");
  made.count = form.take("v2") ? 2 : form.take("v4") ? 4 : 1;
  made.type = form.take_type();
  form.finish(2);
  std::vector<std::string> const elements = parts_of(form.operand(is_load ? 0 : 1));
  if (elements.size() != made.count) form.refuse("a vector of another length");
  if (made.type.bits < 8 || made.type.bits * made.count > 128) form.refuse("an unknown type");
  for (std::size_t i = 0; i < elements.size(); ++i) {
    Operand const found = form.decoder().any(elements[i], made.type.bits);
    if (found.type.bits < made.type.bits) form.refuse("a register that is too small");
    made.slots[i] = found.slot;
    made.slot_bytes[i] = static_cast<std::uint8_t>(found.type.bytes());
  }
  AddressOperand const address = form.decoder().address(form.operand(is_load ? 1 : 0));
  made.slots[made.count] = address.slot;
  made.offset = address.offset;
  if (is_load) {
    made.execute = address.is_wide ? &load<true> : &load<false>;
  } else {
    made.execute = address.is_wide ? &store<true> : &store<false>;
  }
  return true;
}

}  // namespace stagecraft::ptx
