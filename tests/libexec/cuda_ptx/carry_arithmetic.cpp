// Arithmetic in several words: PTX ISA 9.0, 9.7.2.
#include "tests/libexec/cuda_ptx/typed_execution.hpp"

namespace stagecraft::ptx {
namespace {

// What the instruction keeps.
constexpr std::int64_t is_subtraction = 1;
constexpr std::int64_t is_product = 2;
constexpr std::int64_t is_high = 4;
constexpr std::int64_t reads_carry = 8;
constexpr std::int64_t writes_carry = 16;

void with_carry(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  std::int64_t const how = one.offset;
  auto* const to = warp.lanes<std::uint32_t>(one.slots[0]);
  auto const* const a = warp.lanes<std::uint32_t>(one.slots[1]);
  auto const* const b = warp.lanes<std::uint32_t>(one.slots[2]);
  auto const* const c = warp.lanes<std::uint32_t>(one.slots[3]);
  for_lanes(lanes, [&](int lane) {
    std::uint64_t const carry = (how & reads_carry) != 0 ? warp.carry >> lane & 1U : 0;
    std::uint64_t left = a[lane];
    std::uint64_t right = b[lane];
    if ((how & is_product) != 0) {
      left *= right;
      left = (how & is_high) != 0 ? left >> 32 : left & 0xFFFFFFFFU;
      right = c[lane];
    }
    std::uint64_t const sum =
        (how & is_subtraction) != 0 ? left - right - carry : left + right + carry;
    to[lane] = static_cast<std::uint32_t>(sum);
    if ((how & writes_carry) != 0) {
      std::uint32_t const bit = std::uint32_t{1} << lane;
      warp.carry = (sum >> 32) != 0 ? warp.carry | bit : warp.carry & ~bit;
    }
  });
}

}  // namespace

bool make_carry_arithmetic(Form& form, Instruction& made) {
  std::string const& name = form.name();
  bool const reads = name == "addc" || name == "subc" || name == "madc";
  bool const is_one = reads || name == "add" || name == "sub" || name == "mad";
  if (!is_one) return false;
  bool const writes = form.take("cc");
  if (!reads && !writes) return false;
  if (name.rfind("sub", 0) == 0) made.offset |= is_subtraction;
  if (name.rfind("mad", 0) == 0) {
    made.offset |= is_product;
    if (form.take_one_of({"lo", "hi"}) == "hi") made.offset |= is_high;
  }
  if (reads) made.offset |= reads_carry;
  if (writes) made.offset |= writes_carry;
  Type const type = form.take_type();
  if (type.bits != 32 || type.kind == 'f') form.refuse("a carry of 32-bit integers only");
  made.execute = &with_carry;
  take_operands(form, made, 32, (made.offset & is_product) != 0 ? 4 : 3);
  return true;
}

}  // namespace stagecraft::ptx
