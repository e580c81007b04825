#include "libsim/plan/units/unit_writer.hpp"

#include <algorithm>
#include <cstdint>
#include <iterator>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/plan/units/unit_gradients.hpp"
#include "libsim/program/liveness.hpp"

namespace stagecraft {
namespace {

Shape contiguous(Shape const& shape) {
  switch (shape.rank()) {
    case 1:
      return {1};
    case 2:
      return {shape[1], 1};
    case 3:
      return {shape[1] * shape[2], shape[2], 1};
    default:
      throw std::logic_error{"a parameter of a sharded unit has more than three axes"};
  }
}

/// Adds the ops of a unit to a block: gathers of its parameters, and what UnitGradients adds.
class UnitWriter {
 public:
  explicit UnitWriter(UnitBlock& unit) : unit_{unit}, gradients_{unit} {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      std::erase_if(unit_.block.ops(pass), [](Op const& op) { return op.kind == OpKind::wait; });
    }
  }

  void write() {
    if (unit_.is_tail()) {
      write_tail();
    } else {
      if (unit_.traits.gathers) write_forward();
      write_backward();
    }
    insert_waits(unit_.block);
    derive_liveness(unit_.block);
  }

 private:
  using Ops = UnitBlock::Ops;
  using Source = UnitPass::Source;

  /// Ops read the flat buffer itself, if parameters are not copied out of it.
  Name name_of_flat(std::string_view whose) const {
    return {whose, unit_.traits.is_flat ? "parameters" : "flat"};
  }
  /// Appends the gather of a unit. Returns the flat buffer with its parameters. The rank's shard of
  /// each part is copied into its own part of that buffer first.
  TensorId gather(Ops& ops,
                  std::string_view whose,
                  std::vector<UnitPart> const& parts,
                  bool is_ahead) {
    TensorId flat = no_tensor;
    for (UnitPart const& of : parts) {
      std::int64_t const shard = of.shard(unit_.traits);
      GroupId const group = of.group(unit_.traits).group;
      TensorId const kept = unit_.make({whose, of.name(unit_names::shard, "expert_shard")}, shard,
                                       unit_.traits.types.stored, Category::parameters);
      unit_.block.tensors.back().lifetime = Lifetime::job;
      if (flat == no_tensor) {
        flat = unit_.make_parameters(name_of_flat(whose), parts);
      }
      std::int64_t const gathered = of.gathered(unit_.traits);
      TensorId const part =
          unit_.make_part({whose, of.name("part", "expert_part")},
                          gathered / of.group(unit_.traits).ranks, flat, of.first);
      TensorId const to = parts.size() == 1 ? flat
                                            : unit_.make_part({whose, of.name("dense", "experts")},
                                                              gathered, flat, of.first);
      Op& copy =
          unit_.append(ops, OpKind::pack_unit,
                       {whose, of.name(unit_names::copy_in, "copy_experts_in")}, {kept}, {part});
      copy.stream = Stream::gather;
      copy.group = group;
      copy.asynchronous = true;
      copy.is_ahead = is_ahead;
      Op& op = unit_.append_collective(ops, OpKind::all_gather,
                                       {whose, of.name("all_gather", "all_gather_experts")}, part,
                                       to, group);
      op.asynchronous = is_ahead;
      op.is_ahead = is_ahead;
    }
    return flat;
  }

  /// The buffer with the unit's parameters in a pass that does not have them from before. `flat` is
  /// what they are copied from.
  TensorId parameters(Ops& ops, Pass pass, std::string_view whose, Source source, TensorId& flat) {
    if (source == Source::own) {
      flat = gather(ops, whose, unit_.parts, false);
    } else {
      flat = unit_.make_parameters(name_of_flat(whose));
      unit_.take(pass, handed::flat, 0, flat);
    }
    if (unit_.traits.is_flat) return std::exchange(flat, no_tensor);
    TensorId const whole = unit_.make_parameters({whose, "parameters"});
    unit_.append(ops, OpKind::unpack_unit, {whose, "copy_out"}, {flat}, {whole});
    return whole;
  }

  void gather_ahead(Ops& ops, Pass pass, std::string_view whose) {
    bool const is_forward = pass == Pass::forward;
    BlockProgram const& other = *(is_forward ? unit_.beside.behind : unit_.beside.before);
    TensorId const flat = gather(ops, whose, parts_of(other, unit_.traits), true);
    unit_.leave(pass, handed::flat, is_forward ? 1 : -1, flat);
  }

  /// Makes each weight, and what is a view of one, a part of `whole`. A head's own ones come after
  /// those of the embedding of its unit, quantised ones after all others.
  void place_weights(TensorId whole) {
    std::int64_t of_dense = unit_.is_tail() ? elements_of(*unit_.beside.partner, unit_.traits) : 0;
    std::int64_t of_experts = unit_.parts.back().first;
    std::int64_t of_low = unit_.parts.front().high_bytes(unit_.traits);
    for (Parameter const& parameter : unit_.block.parameters) {
      bool const is_low = is_gathered_low(unit_.block, parameter);
      std::int64_t& offset = is_low                                      ? of_low
                             : unit_.traits.experts && parameter.holders ? of_experts
                                                                         : of_dense;
      TensorId const weight = parameter.weight;
      Shape const shape = unit_.block.tensor(weight).shape;
      std::int64_t const begin = parameter.shared ? offset_of_table() : offset;
      for (Tensor& tensor : unit_.block.tensors) {
        if (tensor.buffer != weight) continue;
        if (tensor.strides.rank() == 0) tensor.strides = contiguous(tensor.shape);
        tensor.buffer = whole;
        tensor.offset += begin;
        tensor.lifetime = Lifetime::microbatch;
        tensor.category = Category::gathered;
        if (is_low) tensor.type = unit_.traits.types.low;
      }
      if (!parameter.shared) offset += elements_of(shape, unit_.traits);
    }
  }

  /// The offset of the embedding's table in the unit, in elements. Pre: the head shares the table.
  std::int64_t offset_of_table() const {
    std::int64_t offset = 0;
    for (Parameter const& parameter : unit_.beside.partner->parameters) {
      if (parameter.tied_embedding) break;
      Shape const& shape = unit_.beside.partner->tensor(parameter.weight).shape;
      offset += elements_of(shape, unit_.traits);
    }
    return offset;
  }

  /// Lets backward read its own copies of the weights, in `whole`.
  void read_again(TensorId first, TensorId whole) {
    std::map<TensorId, TensorId> copies;
    for (Op& op : unit_.block.backward) {
      for (TensorId& id : op.reads) {
        if (unit_.block.tensor(id).buffer != first) continue;
        auto const [place, is_new] =
            copies.try_emplace(id, static_cast<TensorId>(unit_.block.tensors.size()));
        if (is_new) {
          Tensor copy = unit_.block.tensor(id);
          copy.buffer = whole;
          copy.rebuilt = true;
          unit_.block.tensors.push_back(copy);
        }
        id = place->second;
      }
    }
  }

  void write_forward() {
    UnitPass const& pass = unit_.passes.forward;
    Ops first;
    Ops last;
    TensorId flat = no_tensor;
    if (pass.source == Source::kept) {
      whole_ = unit_.make_parameters({unit_names::gathered, "parameters"});
      unit_.take(Pass::forward, handed::parameters, 0, whole_);
    } else {
      whole_ = parameters(first, Pass::forward, unit_names::gathered, pass.source, flat);
    }
    place_weights(whole_);
    if (unit_.has_tail()) unit_.lend(Pass::forward, handed::parameters, whole_);
    unit_.hold(last, {unit_names::gathered, "end"}, whole_);
    if (pass.gathers_ahead) gather_ahead(last, Pass::forward, unit_names::ahead);
    // The next unit's flat buffer is allocated before the own one goes.
    if (flat != no_tensor && pass.gathers_ahead) {
      unit_.hold(last, {unit_names::gathered, "flat"}, flat);
    }
    enclose(unit_.block.forward, std::move(first), std::move(last));
  }

  /// A head whose unit the embedding gathers and reduces.
  void write_tail() {
    Ops first;
    if (unit_.traits.gathers) {
      whole_ = unit_.make_parameters({unit_names::gathered, "parameters"});
      unit_.pass_on(Pass::forward, handed::parameters, unit_.beside.distance, whole_);
      place_weights(whole_);
      if (unit_.passes.backward.gathers_ahead) {
        gather_ahead(first, Pass::backward, unit_names::before);
      }
    }
    gradients_.own();
    for (std::size_t i = 0; i < unit_.block.parameters.size(); ++i) {
      unit_.leave(Pass::backward, gradients_of_head.at(i), unit_.beside.distance,
                  unit_.block.parameters[i].gradient);
    }
    enclose(unit_.block.backward, std::move(first), {});
  }

  /// Appends what gives backward its parameters, and returns their buffer.
  TensorId parameters_of_backward(Ops& first) {
    UnitPass const& pass = unit_.passes.backward;
    TensorId whole = whole_;
    if (pass.source != Source::kept) {
      TensorId flat = no_tensor;
      whole = parameters(first, Pass::backward, unit_names::again, pass.source, flat);
      read_again(whole_, whole);
    }
    // The backward of a unit with a head begins there.
    if (pass.gathers_ahead && !unit_.has_tail()) {
      gather_ahead(first, Pass::backward, unit_names::before);
    }
    return whole;
  }

  void write_backward() {
    Ops first;
    Ops last;
    if (unit_.beside.reduces_behind) gradients_.reduce_behind(first, last);
    TensorId const whole = unit_.traits.gathers ? parameters_of_backward(first) : no_tensor;
    gradients_.own();
    Ops reduced = std::exchange(last, {});
    gradients_.collect(last);
    if (unit_.traits.gathers) {
      // Frees the unit's parameters, and then the input of the next unit's reduction, which is
      // over.
      unit_.hold(last, {unit_names::gathered, "end_of_backward"}, whole);
      if (!unit_.passes.backward.frees) unit_.leave(Pass::backward, handed::parameters, 0, whole);
    }
    std::ranges::move(reduced, std::back_inserter(last));
    gradients_.finish(last);
    enclose(unit_.block.backward, std::move(first), std::move(last));
  }

  static void enclose(Ops& ops, Ops first, Ops last) {
    first.insert(first.end(), std::make_move_iterator(ops.begin()),
                 std::make_move_iterator(ops.end()));
    first.insert(first.end(), std::make_move_iterator(last.begin()),
                 std::make_move_iterator(last.end()));
    ops = std::move(first);
  }

  UnitBlock& unit_;
  UnitGradients gradients_;
  TensorId whole_ = no_tensor;  ///< the parameters that forward reads
};

}  // namespace

void write_unit(BlockProgram& block,
                UnitTraits const& traits,
                Neighbours const& beside,
                UnitPasses const& passes) {
  UnitBlock unit{block, traits, beside, passes};
  UnitWriter{unit}.write();
}

}  // namespace stagecraft
