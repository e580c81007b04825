#include "libsim/plan/units/unit_gradients.hpp"

#include <algorithm>
#include <utility>
#include <variant>

namespace stagecraft {

void UnitGradients::own() {
  for (Parameter const& parameter : unit_.block.parameters) {
    TensorId const id = parameter.gradient;
    Tensor& gradient = unit_.block.tensors[static_cast<std::size_t>(id)];
    Bytes const before = gradient.bytes();
    gradient.type = unit_.traits.types.gathered;
    gradient.category = Category::gathered;
    gradient.lifetime = Lifetime::microbatch;
    Bytes const now = gradient.bytes();
    bool is_first = true;
    for (std::size_t i = 0; i < unit_.block.backward.size(); ++i) {
      Op& op = unit_.block.backward[i];
      if (std::ranges::find(op.writes, id) == op.writes.end()) continue;
      auto* const gemm = std::get_if<GemmAttributes>(&op.attributes);
      if (gemm != nullptr) {
        // Others touch little of a gradient, or vectors.
        std::int64_t const times = gemm->shape.accumulate ? 2 : 1;
        op.traffic = Bytes{op.traffic.count() - times * (before.count() - now.count())};
        gemm->output = unit_.traits.types.gathered;
      }
      if (!std::exchange(is_first, false)) continue;
      if (gemm != nullptr && gemm->shape.accumulate) {
        gemm->shape.accumulate = false;
        op.traffic = Bytes{op.traffic.count() - now.count()};
      } else if (op.kind == OpKind::embedding_backward) {
        Ops zero;
        unit_.append(zero, OpKind::zero_fill, {unit_names::gradients, unit_names::zero}, {}, {id});
        unit_.block.backward.insert(unit_.block.backward.begin() + static_cast<std::ptrdiff_t>(i),
                                    zero.front());
        ++i;
      }
    }
  }
  if (unit_.is_tail()) return;
  fill_bucket();
  if (unit_.traits.fills_input) fill_input();
}

bool UnitGradients::goes_into_bucket(Parameter const& parameter) const {
  // What the head adds to comes from elsewhere; larger ones are reduced where they are.
  if (unit_.has_tail() && parameter.tied_embedding) return false;
  if (input_ != no_tensor) return true;
  return bucket_ != no_tensor &&
         unit_.block.tensor(parameter.weight).shape.elements() <= unit_.traits.bucket;
}

void UnitGradients::fill_input() {
  input_ = unit_.make_gathered({unit_names::gradients, "reduce_input"}, unit_.elements,
                               unit_.traits.types.reduced);
  for (Parameter const& parameter : unit_.block.parameters) {
    if (goes_into_bucket(parameter)) move_after_last_write(parameter, input_);
  }
}

void UnitGradients::move_after_last_write(Parameter const& parameter, TensorId to) {
  TensorId const id = parameter.gradient;
  Ops& ops = unit_.block.backward;
  auto const last = std::find_if(ops.rbegin(), ops.rend(), [&](Op const& op) {
    return std::ranges::find(op.writes, id) != op.writes.end();
  });
  Tensor const& gradient = unit_.block.tensor(id);
  Ops move;
  unit_.append(move, OpKind::pack_unit, {unit_names::gradients, "to_bucket"}, {id}, {to}).traffic =
      gradient.bytes() +
      Bytes{gradient.shape.elements() * element_size(unit_.block.tensor(to).type)};
  ops.insert(last.base(), move.front());
}

void UnitGradients::fill_bucket() {
  UnitTraits const& traits = unit_.traits;
  if (traits.own_gradients > 0) {
    own_gradients_ = unit_.make({unit_names::gradients, "own"}, traits.own_gradients,
                                traits.types.stored, Category::gradients);
    hand_down(handed::own_gradients, own_gradients_);
  }
  if (traits.bucket == 0) return;
  bucket_ =
      unit_.make_gathered({unit_names::gradients, "bucket"}, traits.buckets * traits.bucket,
                          traits.keeps_gradients ? traits.types.reduced : traits.types.gathered);
  if (traits.keeps_gradients) {
    unit_.block.tensors.back().lifetime = Lifetime::job;
  } else {
    hand_down(handed::bucket, bucket_);
  }
  std::int64_t elements = 0;
  for (Parameter const& parameter : unit_.block.parameters) {
    if (!goes_into_bucket(parameter)) continue;
    elements += unit_.block.tensor(parameter.weight).shape.elements();
  }
  if (elements == 0) return;
  in_bucket_ = unit_.make_part({unit_names::gradients, "in_bucket"},
                               std::min(elements, traits.bucket), bucket_);
  for (Parameter const& parameter : unit_.block.parameters) {
    if (goes_into_bucket(parameter)) move_after_last_write(parameter, in_bucket_);
  }
}

void UnitGradients::hand_down(std::string_view what, TensorId buffer) {
  if (!unit_.beside.is_first_in_backward) unit_.take(Pass::backward, what, 0, buffer);
  if (unit_.beside.before != nullptr) unit_.leave(Pass::backward, what, -1, buffer);
}

void UnitGradients::collect(Ops& ops) {
  if (in_bucket_ != no_tensor) gradients_.push_back(in_bucket_);
  for (Parameter const& parameter : unit_.block.parameters) {
    if (!goes_into_bucket(parameter)) gradients_.push_back(parameter.gradient);
  }
  if (unit_.has_tail()) collect_from(ops, *unit_.beside.partner);
  if (!unit_.traits.is_flat || input_ != no_tensor) return;
  TensorId const flat = unit_.make_gathered({unit_names::gradients, "flat"}, unit_.elements,
                                            unit_.traits.types.gathered);
  copy_together(ops, {unit_names::gradients, "join"}, flat);
  gradients_ = {flat};
}

void UnitGradients::collect_from(Ops& ops, BlockProgram const& head) {
  for (std::size_t i = 0; i < head.parameters.size(); ++i) {
    Parameter const& parameter = head.parameters[i];
    TensorId const taken = unit_.make_gathered({"head", gradients_of_head.at(i)},
                                               head.tensor(parameter.weight).shape.elements(),
                                               unit_.traits.types.gathered);
    unit_.take(Pass::backward, gradients_of_head.at(i), 0, taken);
    if (!parameter.shared) {
      gradients_.push_back(taken);
      continue;
    }
    auto const table =
        std::ranges::find(unit_.block.parameters, true, &Parameter::tied_embedding)->gradient;
    unit_.append(ops, OpKind::add, {unit_names::gradients, "add_table"}, {table, taken}, {table});
  }
}

void UnitGradients::reduce_behind(Ops& first, Ops& last) {
  BlockProgram const& behind = *unit_.beside.behind;
  std::int64_t const elements = elements_of(behind, unit_.traits);
  TensorId const input =
      unit_.make_gathered({"gradients_behind", "reduce_input"}, reduced_at_once(behind, elements),
                          unit_.traits.types.reduced);
  unit_.take(Pass::backward, handed::reduce_input, 1, input);
  reduce(first, last, "gradients_behind", 1, input, parts_of(behind, unit_.traits), true);
}

void UnitGradients::reduce(Ops& begin,
                           Ops& end,
                           std::string_view whose,
                           std::int32_t position,
                           TensorId input,
                           std::vector<UnitPart> const& parts,
                           bool is_beside) {
  if (unit_.traits.keeps_gradients || own_gradients_ != no_tensor) {
    for (UnitPart const& of : parts) reduce_in_place(begin, end, whose, input, of, is_beside);
    return;
  }
  UnitTypes const& types = unit_.traits.types;
  std::int64_t const shard = parts.front().shard(unit_.traits);
  bool const makes_gradient = !unit_.passes.has_reduced && types.reduced == types.stored;
  TensorId const part = makes_gradient ? unit_.make({whose, unit_names::shard}, shard, types.stored,
                                                    Category::gradients)
                                       : unit_.make_gathered({whose, "part"}, shard, types.reduced);
  unit_
      .append_collective(begin, OpKind::reduce_scatter, {whose, "reduce_scatter"}, input, part,
                         unit_.traits.all.group)
      .asynchronous = is_beside;
  sum_over_copies(begin, whose, part, unit_.traits.all.copies, is_beside);
  unit_.hold(end, {whose, "reduced"}, part);
  if (makes_gradient) {
    unit_.leave(Pass::backward, handed::gradient_shard, position, part);
    return;
  }
  TensorId const kept =
      unit_.make({whose, unit_names::shard}, shard, types.stored, Category::gradients);
  if (unit_.passes.has_reduced) {
    unit_.append(end, OpKind::add, {whose, unit_names::add}, {kept, part}, {kept});
    unit_.pass_on(Pass::backward, handed::gradient_shard, position, kept);
  } else {
    unit_.append(end, OpKind::pack_unit, {whose, unit_names::widen}, {part}, {kept});
    unit_.leave(Pass::backward, handed::gradient_shard, position, kept);
  }
}

void UnitGradients::sum_over_copies(Ops& ops,
                                    std::string_view whose,
                                    TensorId part,
                                    std::optional<GroupId> copies,
                                    bool is_beside) {
  if (!copies) return;
  Op& sum =
      unit_.append_collective(ops, OpKind::all_reduce, {whose, "all_reduce"}, part, part, *copies);
  sum.stream = Stream::sum_over_copies;
  sum.asynchronous = is_beside;
}

void UnitGradients::reduce_in_place(Ops& begin,
                                    Ops& end,
                                    std::string_view whose,
                                    TensorId input,
                                    UnitPart const& of,
                                    bool is_beside) {
  UnitTraits const& traits = unit_.traits;
  UnitGroup const& group = of.group(traits);
  std::int64_t const shard = of.shard(traits);
  // A bucket may be smaller than the unit.
  std::int64_t const held =
      std::min(of.elements, unit_.block.tensor(input).shape.elements() - of.first);
  TensorId const part =
      unit_.make_part({whose, of.name("part", "expert_part")}, held / group.ranks, input, of.first);
  Op& op =
      traits.all_reduces
          ? unit_.append_collective(begin, OpKind::all_reduce, {whose, "all_reduce"}, input, input,
                                    group.group)
          : unit_.append_collective(begin, OpKind::reduce_scatter,
                                    {whose, of.name("reduce_scatter", "reduce_scatter_experts")},
                                    input, part, group.group);
  op.payload = Bytes{of.elements * element_size(traits.types.reduced)};
  op.asynchronous = is_beside;
  sum_over_copies(begin, whose, part, group.copies, is_beside);
  bool const adds = traits.keeps_gradients && unit_.passes.has_reduced;
  TensorId const kept = traits.keeps_gradients
                            ? unit_.make({whose, of.name(unit_names::shard, "expert_shard")}, shard,
                                         traits.types.gradients, Category::gradients)
                            : unit_.make_part({whose, unit_names::shard}, shard, own_gradients_);
  if (traits.keeps_gradients) unit_.block.tensors.back().lifetime = Lifetime::job;
  Op& keep = adds ? unit_.append(end, OpKind::add, {whose, unit_names::add}, {kept, part}, {kept})
                  : unit_.append(end, OpKind::pack_unit, {whose, "keep"}, {part}, {kept});
  std::int64_t const stored = element_size(traits.types.gradients);
  keep.traffic = Bytes{shard * ((adds ? 2 : 1) * stored + element_size(traits.types.reduced))};
}

void UnitGradients::end_backward(Ops& last) {
  for (TensorId const buffer : {bucket_, own_gradients_}) {
    if (buffer == no_tensor || unit_.block.tensor(buffer).lifetime == Lifetime::job) continue;
    unit_.hold(last, {unit_names::gradients, "end_of_backward"}, buffer);
  }
  if (own_gradients_ == no_tensor || unit_.beside.before != nullptr) return;
  if (!unit_.passes.has_reduced) {
    return unit_.leave(Pass::backward, handed::gradient_shard, 0, own_gradients_);
  }
  // The gradients of each later backward have a buffer until they are added to the first one's.
  TensorId const sum =
      unit_.make({unit_names::gradients, unit_names::shard}, unit_.traits.own_gradients,
                 unit_.traits.types.stored, Category::gradients);
  unit_.append(last, OpKind::add, {unit_names::gradients, unit_names::add}, {sum, own_gradients_},
               {sum});
  unit_.pass_on(Pass::backward, handed::gradient_shard, 0, sum);
}

void UnitGradients::finish(Ops& last) {
  if (!unit_.passes.backward.reduces) {
    TensorId const sum = sum_so_far();
    add_to(last, sum);
    unit_.leave(Pass::backward, handed::gradients, 0, sum);
    return;
  }
  TensorId const input = reduce_input(last);
  if (unit_.beside.before != nullptr && unit_.traits.overlaps) {
    unit_.leave(Pass::backward, handed::reduce_input, 0, input);
  } else {
    reduce(last, last, unit_names::gradients, 0, input, unit_.parts, false);
  }
  end_backward(last);
}

std::int64_t UnitGradients::reduced_at_once(BlockProgram const& block,
                                            std::int64_t elements) const {
  if (unit_.traits.bucket == 0) return elements;
  std::int64_t most = unit_.traits.bucket;
  for (Parameter const& parameter : block.parameters) {
    most = std::max(most, elements_of(block.tensor(parameter.weight).shape, unit_.traits));
  }
  return std::min(elements, most);
}

void UnitGradients::copy_together(Ops& ops, Name name, TensorId whole) {
  TensorList parts;
  Bytes moved;  // what is read, and as many elements of the whole, which are written
  auto const flush = [&] {
    if (parts.size() == 0) return;
    unit_.append(ops, OpKind::pack_unit, name, parts, {whole}).traffic = moved;
    parts = {};
    moved = {};
  };
  for (TensorId const gradient : gradients_) {
    if (parts.size() == TensorList::capacity) flush();
    parts.push_back(gradient);
    Tensor const& part = unit_.block.tensor(gradient);
    moved +=
        part.bytes() + Bytes{part.shape.elements() * element_size(unit_.block.tensor(whole).type)};
  }
  flush();
}

ElementType UnitGradients::type_of_sum() const {
  return unit_.traits.is_flat ? unit_.traits.types.gathered : unit_.traits.types.reduced;
}

TensorId UnitGradients::sum_so_far() {
  TensorId const sum =
      unit_.make_gathered({unit_names::gradients, "sum"}, unit_.elements, type_of_sum());
  if (unit_.passes.adds_up) unit_.take(Pass::backward, handed::gradients, 0, sum);
  return sum;
}

void UnitGradients::add_to(Ops& ops, TensorId sum) {
  for (TensorId const gradient : gradients_) {
    std::int64_t const elements = unit_.block.tensor(gradient).shape.elements();
    std::int64_t const bytes = (unit_.passes.adds_up ? 2 : 1) * element_size(type_of_sum()) +
                               element_size(unit_.traits.types.gathered);
    bool const is_sum = unit_.passes.adds_up;
    Op& op = unit_.append(ops, is_sum ? OpKind::add : OpKind::pack_unit,
                          {unit_names::gradients, unit_names::add_up},
                          is_sum ? TensorList{sum, gradient} : TensorList{gradient}, {sum});
    op.traffic = Bytes{elements * bytes};
  }
}

TensorId UnitGradients::reduce_input(Ops& ops) {
  if (unit_.passes.adds_up) {
    TensorId const sum = sum_so_far();
    add_to(ops, sum);
    gradients_ = {sum};
  }
  if (input_ != no_tensor) {
    copy_together(ops, {unit_names::gradients, unit_names::copy_in}, input_);
    return input_;
  }
  if (unit_.traits.is_flat && unit_.traits.types.reduced == unit_.traits.types.gathered) {
    return gradients_.front();
  }
  TensorId const input =
      unit_.make_gathered({unit_names::gradients, "reduce_input"},
                          reduced_at_once(unit_.block, unit_.elements), unit_.traits.types.reduced);
  copy_together(ops, {unit_names::gradients, unit_names::copy_in}, input);
  return input;
}

}  // namespace stagecraft
