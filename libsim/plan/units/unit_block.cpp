#include "libsim/plan/units/unit_block.hpp"

#include <algorithm>
#include <numeric>

namespace stagecraft {

/// Elements of a parameter, with its own padding.
std::int64_t elements_of(Shape const& shape, UnitTraits const& traits) {
  if (traits.is_flat || !traits.gathers) return shape.elements();
  return traits.all.ranks * sharded_elements(shape, traits.all.ranks, traits.cuts_rows);
}

/// The elements of a block's own parameters, padded.
std::int64_t elements_of(BlockProgram const& block, UnitTraits const& traits) {
  std::vector<UnitPart> const parts = parts_of(block, traits);
  return parts.back().first + parts.back().elements;
}

std::vector<UnitPart> parts_of(BlockProgram const& block,
                               UnitTraits const& traits,
                               std::int64_t tail) {
  UnitPart dense;
  UnitPart experts{.is_of_experts = true};
  std::int64_t row_of_dense = 1;
  std::int64_t row_of_experts = 1;
  for (Parameter const& parameter : block.parameters) {
    if (parameter.shared) continue;
    bool const is_of_experts = traits.experts && parameter.holders;
    Shape const& shape = block.tensor(parameter.weight).shape;
    UnitPart& part = is_of_experts ? experts : dense;
    part.elements += elements_of(shape, traits);
    if (is_gathered_low(block, parameter)) part.low += elements_of(shape, traits);
    std::int64_t& row = is_of_experts ? row_of_experts : row_of_dense;
    if (traits.joins_rows) row = std::lcm(row, row_of(shape));
  }
  dense.elements =
      traits.all.ranks * shard_of(dense.elements, traits.all.ranks, row_of_dense) + tail;
  if (experts.elements == 0) return {dense};
  experts.first = dense.elements;
  experts.elements =
      traits.experts->ranks * shard_of(experts.elements, traits.experts->ranks, row_of_experts);
  return {dense, experts};
}

bool is_gathered_low(BlockProgram const& block, Parameter const& parameter) {
  return std::ranges::find(block.low_weights, parameter.weight) != block.low_weights.end();
}

UnitBlock::UnitBlock(BlockProgram& of,
                     UnitTraits const& unit_traits,
                     Neighbours const& neighbours,
                     UnitPasses const& unit_passes)
    : block{of},
      traits{unit_traits},
      beside{neighbours},
      passes{unit_passes},
      parts{parts_of(
          block, traits, beside.partner == nullptr ? 0 : elements_of(*beside.partner, traits))},
      elements{parts.back().first + parts.back().elements} {}

TensorId UnitBlock::make(Name name, std::int64_t count, ElementType type, Category category) {
  auto const id = static_cast<TensorId>(block.tensors.size());
  Tensor& made = block.tensors.emplace_back();
  made.name = name;
  made.type = type;
  made.category = category;
  made.shape = {count};
  made.buffer = id;
  return id;
}

TensorId UnitBlock::make_parameters(Name name, std::vector<UnitPart> const& of) {
  return make_gathered(name, of.back().first + of.back().gathered(traits),
                       of.front().gathered_type(traits));
}

TensorId UnitBlock::make_part(Name name, std::int64_t count, TensorId whole, std::int64_t first) {
  Tensor const of = block.tensor(whole);
  TensorId const part = make(name, count, of.type, of.category);
  block.tensors.back().buffer = of.buffer;
  block.tensors.back().offset = of.offset + first;
  block.tensors.back().lifetime = of.lifetime;
  block.tensors.back().strides = {1};
  return part;
}

void UnitBlock::take(Pass pass, std::string_view what, std::int32_t of, TensorId tensor) {
  block.handovers.push_back({.pass = pass, .what = what, .position = of, .taken = tensor});
}

void UnitBlock::leave(Pass pass, std::string_view what, std::int32_t to, TensorId tensor) {
  block.handovers.push_back({.pass = pass, .what = what, .position = to, .left = tensor});
}

void UnitBlock::lend(Pass pass, std::string_view what, TensorId tensor) {
  block.handovers.push_back({.pass = pass, .what = what, .lent = tensor});
}

void UnitBlock::pass_on(Pass pass, std::string_view what, std::int32_t of, TensorId tensor) {
  take(pass, what, of, tensor);
  leave(pass, what, of, tensor);
}

Op& UnitBlock::append(
    Ops& ops, OpKind kind, Name name, TensorList const& reads, TensorList const& writes) {
  Op& op = ops.emplace_back();
  op.kind = kind;
  op.name = name;
  op.phase = Phase::data_parallel;
  op.module = unit_names::module;
  op.type = traits.types.gathered;
  op.reads = reads;
  op.writes = writes;
  for (TensorId const id : reads) op.traffic += block.tensor(id).bytes();
  for (TensorId const id : writes) op.traffic += block.tensor(id).bytes();
  return op;
}

Op& UnitBlock::append_collective(
    Ops& ops, OpKind kind, Name name, TensorId from, TensorId to, GroupId group) {
  Op& op = append(ops, kind, name, {from}, {to});
  op.stream = Stream::gather;
  op.group = group;
  op.payload = block.tensor(kind == OpKind::all_gather ? to : from).bytes();
  op.traffic = {};
  return op;
}

}  // namespace stagecraft
