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
        unit_.append(zero, OpKind::zero_fill, {"unit_gradients", "zero"}, {}, {id});
        unit_.block.backward.insert(unit_.block.backward.begin() + static_cast<std::ptrdiff_t>(i),
                                    zero.front());
        ++i;
      }
    }
  }
}

void UnitGradients::collect(Ops& ops) {
  for (Parameter const& parameter : unit_.block.parameters)
    gradients_.push_back(parameter.gradient);
  if (unit_.has_tail()) collect_from(ops, *unit_.beside.partner);
  if (!unit_.traits.is_flat) return;
  TensorId const flat =
      unit_.make_gathered({"unit_gradients", "flat"}, unit_.elements, unit_.traits.types.gathered);
  copy_together(ops, {"unit_gradients", "join"}, flat);
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
    unit_.append(ops, OpKind::add, {"unit_gradients", "add_table"}, {table, taken}, {table});
  }
}

void UnitGradients::reduce_behind(Ops& first, Ops& last) {
  std::int64_t const elements = elements_of(*unit_.beside.behind, unit_.traits);
  TensorId const input = unit_.make_gathered({"gradients_behind", "reduce_input"}, elements,
                                             unit_.traits.types.reduced);
  unit_.take(Pass::backward, handed::reduce_input, 1, input);
  reduce(first, last, "gradients_behind", 1, input, true);
}

void UnitGradients::reduce(Ops& begin,
                           Ops& end,
                           std::string_view whose,
                           std::int32_t position,
                           TensorId input,
                           bool is_beside) {
  UnitTypes const& types = unit_.traits.types;
  std::int64_t const shard = unit_.block.tensor(input).shape.elements() / unit_.traits.ranks;
  bool const makes_gradient = !unit_.passes.has_reduced && types.reduced == types.stored;
  TensorId const part = makes_gradient
                            ? unit_.make({whose, "shard"}, shard, types.stored, Category::gradients)
                            : unit_.make_gathered({whose, "part"}, shard, types.reduced);
  unit_.append_collective(begin, OpKind::reduce_scatter, {whose, "reduce_scatter"}, input, part)
      .asynchronous = is_beside;
  if (unit_.traits.copies) {
    Op& sum = unit_.append_collective(begin, OpKind::all_reduce, {whose, "all_reduce"}, part, part);
    sum.stream = Stream::sum_over_copies;
    sum.group = unit_.traits.copies;
    sum.asynchronous = is_beside;
  }
  unit_.hold(end, {whose, "reduced"}, part);
  if (makes_gradient) {
    unit_.leave(Pass::backward, handed::gradient_shard, position, part);
    return;
  }
  TensorId const kept = unit_.make({whose, "shard"}, shard, types.stored, Category::gradients);
  if (unit_.passes.has_reduced) {
    unit_.append(end, OpKind::add, {whose, "add"}, {kept, part}, {kept});
    unit_.pass_on(Pass::backward, handed::gradient_shard, position, kept);
  } else {
    unit_.append(end, OpKind::pack_unit, {whose, "widen"}, {part}, {kept});
    unit_.leave(Pass::backward, handed::gradient_shard, position, kept);
  }
}

void UnitGradients::finish(Ops& last) {
  if (!unit_.passes.backward.reduces) {
    TensorId const sum = sum_so_far();
    add_to(last, sum);
    unit_.leave(Pass::backward, handed::gradients, 0, sum);
    return;
  }
  TensorId const input = reduce_input(last);
  if (unit_.beside.before != nullptr) {
    unit_.leave(Pass::backward, handed::reduce_input, 0, input);
  } else {
    reduce(last, last, "unit_gradients", 0, input, false);
  }
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
      unit_.make_gathered({"unit_gradients", "sum"}, unit_.elements, type_of_sum());
  if (unit_.passes.adds_up) unit_.take(Pass::backward, handed::gradients, 0, sum);
  return sum;
}

void UnitGradients::add_to(Ops& ops, TensorId sum) {
  for (TensorId const gradient : gradients_) {
    std::int64_t const elements = unit_.block.tensor(gradient).shape.elements();
    std::int64_t const bytes = (unit_.passes.adds_up ? 2 : 1) * element_size(type_of_sum()) +
                               element_size(unit_.traits.types.gathered);
    bool const is_sum = unit_.passes.adds_up;
    Op& op =
        unit_.append(ops, is_sum ? OpKind::add : OpKind::pack_unit, {"unit_gradients", "add_up"},
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
  if (unit_.traits.is_flat && unit_.traits.types.reduced == unit_.traits.types.gathered) {
    return gradients_.front();
  }
  TensorId const input = unit_.make_gathered({"unit_gradients", "reduce_input"}, unit_.elements,
                                             unit_.traits.types.reduced);
  copy_together(ops, {"unit_gradients", "copy_in"}, input);
  return input;
}

}  // namespace stagecraft
