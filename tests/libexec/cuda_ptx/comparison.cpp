// Comparisons, selections and logic of predicates: PTX ISA 9.0, 9.7.6 and 9.7.8.
#include <cmath>
#include <type_traits>

#include "tests/libexec/cuda_ptx/instruction_set.hpp"
#include "tests/libexec/cuda_ptx/warp_registers.hpp"

namespace stagecraft::ptx {
namespace {

enum class Relation { eq, ne, lt, le, gt, ge, equ, neu, ltu, leu, gtu, geu, num, nan };

template <Relation relation, typename T>
bool holds(T a, T b) {
  if constexpr (std::is_floating_point_v<T>) {
    bool const is_ordered = !std::isnan(a) && !std::isnan(b);
    if constexpr (relation == Relation::num) return is_ordered;
    if constexpr (relation == Relation::nan) return !is_ordered;
    // Those with a u hold for NaN, the others do not.
    if (!is_ordered) return relation >= Relation::equ;
  }
  switch (relation) {
    case Relation::eq:
    case Relation::equ:
      return a == b;
    case Relation::ne:
    case Relation::neu:
      return a != b;
    case Relation::lt:
    case Relation::ltu:
      return a < b;
    case Relation::le:
    case Relation::leu:
      return a <= b;
    case Relation::gt:
    case Relation::gtu:
      return a > b;
    default:
      return a >= b;
  }
}

template <typename T, Relation relation>
void compare(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T const* const a = warp.lanes<T>(one.slots[1]);
  T const* const b = warp.lanes<T>(one.slots[2]);
  std::uint32_t found = 0;
  for_lanes(lanes,
            [&](int lane) { found |= std::uint32_t{holds<relation>(a[lane], b[lane])} << lane; });
  std::uint32_t& to = warp.predicate(one.slots[0]);
  to = (to & ~lanes) | found;
}

template <typename T>
void select(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  T* const to = warp.lanes<T>(one.slots[0]);
  T const* const a = warp.lanes<T>(one.slots[1]);
  T const* const b = warp.lanes<T>(one.slots[2]);
  std::uint32_t const choice = warp.predicate(one.slots[3]);
  for_lanes(lanes, [&](int lane) { to[lane] = (choice >> lane & 1U) != 0 ? a[lane] : b[lane]; });
}

template <char operation>
void logic(WarpRegisters& warp, Instruction const& one, std::uint32_t lanes) {
  std::uint32_t const a = warp.predicate(one.slots[1]);
  std::uint32_t const b = warp.predicate(one.slots[2]);
  std::uint32_t const result = operation == '&'   ? a & b
                               : operation == '|' ? a | b
                               : operation == '^' ? a ^ b
                               : operation == '~' ? ~a
                                                  : a;
  std::uint32_t& to = warp.predicate(one.slots[0]);
  to = (to & ~lanes) | (result & lanes);
}

template <typename T>
Execute comparison(Form const& form, std::string const& relation) {
  using enum Relation;
  if (relation == "eq") return &compare<T, eq>;
  if (relation == "ne") return &compare<T, ne>;
  if (relation == "lt") return &compare<T, lt>;
  if (relation == "le") return &compare<T, le>;
  if (relation == "gt") return &compare<T, gt>;
  if (relation == "ge") return &compare<T, ge>;
  if constexpr (std::is_floating_point_v<T>) {
    if (relation == "equ") return &compare<T, equ>;
    if (relation == "neu") return &compare<T, neu>;
    if (relation == "ltu") return &compare<T, ltu>;
    if (relation == "leu") return &compare<T, leu>;
    if (relation == "gtu") return &compare<T, gtu>;
    if (relation == "geu") return &compare<T, geu>;
    if (relation == "num") return &compare<T, num>;
    if (relation == "nan") return &compare<T, Relation::nan>;
  }
  form.refuse("an unknown comparison");
}

Execute comparison(Form const& form, std::string const& relation, Type type) {
  if (type == Type{'f', 32}) return comparison<float>(form, relation);
  if (type == Type{'f', 64}) return comparison<double>(form, relation);
  bool const is_signed = type.kind == 's';
  if (type.bits == 16) {
    return is_signed ? comparison<std::int16_t>(form, relation)
                     : comparison<std::uint16_t>(form, relation);
  }
  if (type.bits == 32) {
    return is_signed ? comparison<std::int32_t>(form, relation)
                     : comparison<std::uint32_t>(form, relation);
  }
  if (type.bits == 64) {
    return is_signed ? comparison<std::int64_t>(form, relation)
                     : comparison<std::uint64_t>(form, relation);
  }
  form.refuse("an unknown type");
}

bool make_logic(Form& form, Instruction& made) {
  std::string const& name = form.name();
  if (name != "and" && name != "or" && name != "xor" && name != "not" && name != "mov")
    return false;
  if (!form.take("pred")) return false;
  made.execute = name == "and"   ? &logic<'&'>
                 : name == "or"  ? &logic<'|'>
                 : name == "xor" ? &logic<'^'>
                 : name == "not" ? &logic<'~'>
                                 : &logic<'='>;
  bool const is_unary = name == "not" || name == "mov";
  form.finish(is_unary ? 2 : 3);
  made.slots = {form.result(0, 1), form.value(1, 1), form.value(is_unary ? 1 : 2, 1)};
  return true;
}

}  // namespace

bool make_comparison(Form& form, Instruction& made) {
  if (make_logic(form, made)) return true;
  if (form.name() == "setp") {
    std::string const relation = form.take_one_of({"eq", "ne", "lt", "le", "gt", "ge", "equ", "neu",
                                                   "ltu", "leu", "gtu", "geu", "num", "nan"});
    Type const type = form.take_type();
    made.execute = comparison(form, relation, type);
    form.finish(3);
    made.slots = {form.result(0, 1), form.value(1, type.bits), form.value(2, type.bits)};
    return true;
  }
  if (form.name() == "selp") {
    Type const type = form.take_type();
    made.execute = type.bits == 16   ? &select<std::uint16_t>
                   : type.bits == 32 ? &select<std::uint32_t>
                                     : &select<std::uint64_t>;
    if (type.bits < 16) form.refuse("an unknown type");
    form.finish(4);
    made.slots = {form.result(0, type.bits), form.value(1, type.bits), form.value(2, type.bits),
                  form.value(3, 1)};
    return true;
  }
  return false;
}

}  // namespace stagecraft::ptx
