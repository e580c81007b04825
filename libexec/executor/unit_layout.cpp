#include "libexec/executor/unit_layout.hpp"

#include <algorithm>
#include <cstddef>
#include <stdexcept>
#include <string>
#include <string_view>

#include "libsim/plan/units/unit_block.hpp"
#include "libsim/plan/units/unit_types.hpp"

namespace stagecraft {
namespace {

/// Elements [first, first + count) of an operand whose elements are adjacent.
Operand part_of(Operand const& whole, std::int64_t first, std::int64_t count) {
  return {.data = static_cast<std::byte*>(whole.data) + first * element_size(whole.type),
          .type = whole.type,
          .shape = {count},
          .strides = {}};
}

/// The same call on one operand that is read, and one that is written.
KernelCall call_on(KernelCall const& whole, Operand const& from, Operand const& to) {
  KernelCall call = whole;
  call.reads = {};
  call.writes = {};
  if (whole.kind == OpKind::add) call.reads.push_back(to);
  call.reads.push_back(from);
  call.writes.push_back(to);
  return call;
}

}  // namespace

UnitLayout::UnitLayout(BlockProgram const& block, int ranks) : ranks_{ranks} {
  for (Parameter const& parameter : block.parameters) {
    Shape const& shape = block.tensor(parameter.weight).shape;
    std::int64_t const shard = sharded_elements(shape, ranks);
    parameters_.push_back({.elements = shape.elements(),
                           .shard = shard,
                           .in_shard = shard_,
                           .in_whole = ranks * shard_});
    shard_ += shard;
  }
}

std::vector<KernelCall> UnitLayout::pieces(KernelCall const& whole, std::size_t first) const {
  if (whole.kind == OpKind::unpack_unit) return unpacked(whole);
  std::string_view const part = whole.name.part;
  bool const is_of_gradients = whole.name.owner == unit_names::gradients;
  if (is_of_gradients && part == unit_names::copy_in) return packed_by_rank(whole, first);
  if (is_of_gradients && part == unit_names::add_up) return added_up(whole, first);
  // Between shards nothing changes its place.
  if (part == unit_names::copy_in || part == unit_names::add || part == unit_names::widen ||
      part == unit_names::zero) {
    return {whole};
  }
  throw std::logic_error{to_string(whole.name) + " moves a unit in no way that is known"};
}

std::vector<KernelCall> UnitLayout::unpacked(KernelCall const& whole) const {
  std::vector<KernelCall> calls;
  for (UnitParameter const& of : parameters_) {
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      calls.push_back(call_on(whole, part_of(whole.reads[0], rank * shard_ + of.in_shard, of.shard),
                              part_of(whole.writes[0], of.in_whole + rank * of.shard, of.shard)));
    }
  }
  return calls;
}

std::vector<KernelCall> UnitLayout::packed_by_rank(KernelCall const& whole,
                                                   std::size_t first) const {
  // What earlier microbatches have added up is whole; else the op reads gradients one by one.
  bool const is_whole = whole.reads[0].shape.elements() == ranks_ * shard_;
  std::size_t const count = is_whole ? parameters_.size() : whole.reads.size();
  std::vector<KernelCall> calls;
  for (std::size_t i = 0; i < count; ++i) {
    UnitParameter const& of = parameters_.at(first + i);
    Operand const& from = whole.reads[is_whole ? 0 : i];
    for (std::int64_t rank = 0; rank < ranks_; ++rank) {
      std::int64_t const begin = rank * of.shard;
      std::int64_t const there = std::clamp<std::int64_t>(of.elements - begin, 0, of.shard);
      if (there == 0) continue;
      calls.push_back(call_on(whole, part_of(from, begin + (is_whole ? of.in_whole : 0), there),
                              part_of(whole.writes[0], rank * shard_ + of.in_shard, there)));
    }
  }
  return calls;
}

std::vector<KernelCall> UnitLayout::added_up(KernelCall const& whole, std::size_t first) const {
  UnitParameter const& of = parameters_.at(first);
  Operand const& gradient = whole.reads[whole.reads.size() - 1];
  return {call_on(whole, part_of(gradient, 0, of.elements),
                  part_of(whole.writes[0], of.in_whole, of.elements))};
}

}  // namespace stagecraft
