#include "libsim/plan/units/unit_writer.hpp"

#include <algorithm>
#include <array>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/program/liveness.hpp"

namespace stagecraft {
namespace {

/// The buffers that units leave to each other.
namespace handed {
constexpr std::string_view flat = "flat";                      // of the unit that takes it
constexpr std::string_view parameters = "parameters";          // the unit's own
constexpr std::string_view gradients = "gradients";            // its own, not reduced
constexpr std::string_view reduce_input = "reduce_input";      // of the unit that leaves it
constexpr std::string_view gradient_shard = "gradient_shard";  // of that whose gradients it has
}  // namespace handed

/// Elements of a parameter, with its own padding.
std::int64_t elements_of(Shape const& shape, UnitTraits const& traits) {
  return traits.is_flat ? shape.elements() : traits.ranks * sharded_elements(shape, traits.ranks);
}

/// The elements of a block's own parameters, padded.
std::int64_t elements_of(BlockProgram const& block, UnitTraits const& traits) {
  std::int64_t sum = 0;
  for (Parameter const& parameter : block.parameters) {
    if (!parameter.shared) sum += elements_of(block.tensor(parameter.weight).shape, traits);
  }
  return traits.ranks * shard_of(sum, traits.ranks);
}

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

bool is_head(BlockProgram const& block) { return block.kind == BlockProgram::Kind::head; }

/// What a head leaves to the embedding of its unit: the gradients of its parameters, in order.
constexpr std::array<std::string_view, 4> gradients_of_head{"gradient_0", "gradient_1",
                                                            "gradient_2", "gradient_3"};

/// Adds the ops of a unit to a block.
class UnitWriter {
 public:
  UnitWriter(BlockProgram& block,
             UnitTraits const& traits,
             Neighbours const& beside,
             UnitPasses const& passes)
      : block_{block},
        traits_{traits},
        beside_{beside},
        passes_{passes},
        elements_{elements_of(block, traits) +
                  (beside.partner == nullptr ? 0 : elements_of(*beside.partner, traits))} {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      std::erase_if(block_.ops(pass), [](Op const& op) { return op.kind == OpKind::wait; });
    }
  }

  void write() {
    if (is_tail()) {
      write_tail();
    } else {
      write_forward();
      write_backward();
    }
    insert_waits(block_);
    derive_liveness(block_);
  }

 private:
  using Ops = std::vector<Op>;
  using Source = UnitPass::Source;

  bool has_tail() const { return beside_.partner != nullptr && !is_head(block_); }
  bool is_tail() const { return beside_.partner != nullptr && is_head(block_); }

  TensorId make(Name name, std::int64_t elements, ElementType type, Category category) {
    auto const id = static_cast<TensorId>(block_.tensors.size());
    Tensor& made = block_.tensors.emplace_back();
    made.name = name;
    made.type = type;
    made.category = category;
    made.shape = {elements};
    made.buffer = id;
    return id;
  }
  /// Ops read the flat buffer itself, if parameters are not copied out of it.
  Name name_of_flat(std::string_view whose) const {
    return {whose, traits_.is_flat ? "parameters" : "flat"};
  }
  TensorId make_gathered(Name name, std::int64_t elements, ElementType type) {
    return make(name, elements, type, Category::gathered);
  }

  void take(Pass pass, std::string_view what, std::int32_t of, TensorId tensor) {
    block_.handovers.push_back({.pass = pass, .what = what, .position = of, .taken = tensor});
  }
  void leave(Pass pass, std::string_view what, std::int32_t to, TensorId tensor) {
    block_.handovers.push_back({.pass = pass, .what = what, .position = to, .left = tensor});
  }
  void lend(Pass pass, std::string_view what, TensorId tensor) {
    block_.handovers.push_back({.pass = pass, .what = what, .lent = tensor});
  }
  void pass_on(Pass pass, std::string_view what, std::int32_t of, TensorId tensor) {
    take(pass, what, of, tensor);
    leave(pass, what, of, tensor);
  }

  Op& append(Ops& ops, OpKind kind, Name name, TensorList const& reads, TensorList const& writes) {
    Op& op = ops.emplace_back();
    op.kind = kind;
    op.name = name;
    op.phase = Phase::data_parallel;
    op.module = "unit";
    op.type = traits_.types.gathered;
    op.reads = reads;
    op.writes = writes;
    for (TensorId const id : reads) op.traffic += block_.tensor(id).bytes();
    for (TensorId const id : writes) op.traffic += block_.tensor(id).bytes();
    return op;
  }
  Op& append_collective(Ops& ops, OpKind kind, Name name, TensorId from, TensorId to) {
    Op& op = append(ops, kind, name, {from}, {to});
    op.stream = Stream::gather;
    op.group = traits_.group;
    op.payload = block_.tensor(kind == OpKind::all_gather ? to : from).bytes();
    op.traffic = {};
    return op;
  }
  /// The buffer stays at least until here.
  void hold(Ops& ops, Name name, TensorId buffer) {
    append(ops, OpKind::hold, name, {buffer}, {}).traffic = {};
  }

  /// Appends the gather of a unit. Returns the flat buffer with its parameters. The rank's shard is
  /// copied into its own part of that buffer first.
  TensorId gather(Ops& ops, std::string_view whose, std::int64_t elements, bool is_ahead) {
    std::int64_t const shard = elements / traits_.ranks;
    TensorId const kept = make({whose, "shard"}, shard, traits_.types.stored, Category::parameters);
    block_.tensors.back().lifetime = Lifetime::job;
    TensorId const flat = make_gathered(name_of_flat(whose), elements, traits_.types.gathered);
    TensorId const part = make_gathered({whose, "part"}, shard, traits_.types.gathered);
    block_.tensors.back().buffer = flat;
    block_.tensors.back().strides = {1};
    Op& copy = append(ops, OpKind::pack_unit, {whose, "copy_in"}, {kept}, {part});
    copy.stream = Stream::gather;
    copy.group = traits_.group;
    copy.asynchronous = true;
    copy.is_ahead = is_ahead;
    Op& op = append_collective(ops, OpKind::all_gather, {whose, "all_gather"}, part, flat);
    op.asynchronous = is_ahead;
    op.is_ahead = is_ahead;
    return flat;
  }

  /// The buffer with the unit's parameters in a pass that does not have them from before. `flat` is
  /// what they are copied from.
  TensorId parameters(Ops& ops, Pass pass, std::string_view whose, Source source, TensorId& flat) {
    if (source == Source::own) {
      flat = gather(ops, whose, elements_, false);
    } else {
      flat = make_gathered(name_of_flat(whose), elements_, traits_.types.gathered);
      take(pass, handed::flat, 0, flat);
    }
    if (traits_.is_flat) return std::exchange(flat, no_tensor);
    TensorId const whole = make_gathered({whose, "parameters"}, elements_, traits_.types.gathered);
    append(ops, OpKind::unpack_unit, {whose, "copy_out"}, {flat}, {whole});
    return whole;
  }

  void gather_ahead(Ops& ops, Pass pass, std::string_view whose) {
    bool const is_forward = pass == Pass::forward;
    BlockProgram const& other = *(is_forward ? beside_.behind : beside_.before);
    TensorId const flat = gather(ops, whose, elements_of(other, traits_), true);
    leave(pass, handed::flat, is_forward ? 1 : -1, flat);
  }

  /// Makes each weight, and what is a view of one, a part of `whole`. A head's own ones come after
  /// those of the embedding of its unit.
  void place_weights(TensorId whole) {
    std::int64_t offset = is_tail() ? elements_of(*beside_.partner, traits_) : 0;
    for (Parameter const& parameter : block_.parameters) {
      TensorId const weight = parameter.weight;
      Shape const shape = block_.tensor(weight).shape;
      std::int64_t const begin = parameter.shared ? offset_of_table() : offset;
      for (Tensor& tensor : block_.tensors) {
        if (tensor.buffer != weight) continue;
        if (tensor.strides.rank() == 0) tensor.strides = contiguous(tensor.shape);
        tensor.buffer = whole;
        tensor.offset += begin;
        tensor.lifetime = Lifetime::microbatch;
        tensor.category = Category::gathered;
      }
      if (!parameter.shared) offset += elements_of(shape, traits_);
    }
  }

  /// The offset of the embedding's table in the unit, in elements. Pre: the head shares the table.
  std::int64_t offset_of_table() const {
    std::int64_t offset = 0;
    for (Parameter const& parameter : beside_.partner->parameters) {
      if (parameter.tied_embedding) break;
      Shape const& shape = beside_.partner->tensor(parameter.weight).shape;
      offset += elements_of(shape, traits_);
    }
    return offset;
  }

  /// Lets backward read its own copies of the weights, in `whole`.
  void read_again(TensorId first, TensorId whole) {
    std::map<TensorId, TensorId> copies;
    for (Op& op : block_.backward) {
      for (TensorId& id : op.reads) {
        if (block_.tensor(id).buffer != first) continue;
        auto const [place, is_new] =
            copies.try_emplace(id, static_cast<TensorId>(block_.tensors.size()));
        if (is_new) {
          Tensor copy = block_.tensor(id);
          copy.buffer = whole;
          copy.rebuilt = true;
          block_.tensors.push_back(copy);
        }
        id = place->second;
      }
    }
  }

  void write_forward() {
    UnitPass const& pass = passes_.forward;
    Ops first;
    Ops last;
    TensorId flat = no_tensor;
    if (pass.source == Source::kept) {
      whole_ = make_gathered({"unit", "parameters"}, elements_, traits_.types.gathered);
      take(Pass::forward, handed::parameters, 0, whole_);
    } else {
      whole_ = parameters(first, Pass::forward, "unit", pass.source, flat);
    }
    place_weights(whole_);
    if (has_tail()) lend(Pass::forward, handed::parameters, whole_);
    hold(last, {"unit", "end"}, whole_);
    if (pass.gathers_ahead) gather_ahead(last, Pass::forward, "unit_ahead");
    // The next unit's flat buffer is allocated before the own one goes.
    if (flat != no_tensor && pass.gathers_ahead) hold(last, {"unit", "flat"}, flat);
    enclose(block_.forward, std::move(first), std::move(last));
  }

  /// A head whose unit the embedding gathers and reduces.
  void write_tail() {
    whole_ = make_gathered({"unit", "parameters"}, elements_, traits_.types.gathered);
    pass_on(Pass::forward, handed::parameters, beside_.distance, whole_);
    place_weights(whole_);
    Ops first;
    if (passes_.backward.gathers_ahead) gather_ahead(first, Pass::backward, "unit_before");
    own_gradients();
    for (std::size_t i = 0; i < block_.parameters.size(); ++i) {
      leave(Pass::backward, gradients_of_head.at(i), beside_.distance,
            block_.parameters[i].gradient);
    }
    enclose(block_.backward, std::move(first), {});
  }

  /// The gradients of the unit's parameters: the block's, and what the head of its unit has left.
  /// The table's are added up.
  void collect_gradients(Ops& ops) {
    for (Parameter const& parameter : block_.parameters) gradients_.push_back(parameter.gradient);
    if (!has_tail()) return;
    BlockProgram const& head = *beside_.partner;
    for (std::size_t i = 0; i < head.parameters.size(); ++i) {
      Parameter const& parameter = head.parameters[i];
      TensorId const taken =
          make_gathered({"head", gradients_of_head.at(i)},
                        head.tensor(parameter.weight).shape.elements(), traits_.types.gathered);
      take(Pass::backward, gradients_of_head.at(i), 0, taken);
      if (!parameter.shared) {
        gradients_.push_back(taken);
        continue;
      }
      auto const table =
          std::ranges::find(block_.parameters, true, &Parameter::tied_embedding)->gradient;
      append(ops, OpKind::add, {"unit_gradients", "add_table"}, {table, taken}, {table});
    }
  }

  void write_backward() {
    UnitPass const& pass = passes_.backward;
    Ops first;
    Ops last;
    TensorId whole = whole_;
    if (beside_.reduces_behind) reduce_behind(first, last);
    if (pass.source != Source::kept) {
      TensorId flat = no_tensor;
      whole = parameters(first, Pass::backward, "unit_again", pass.source, flat);
      read_again(whole_, whole);
    }
    // The backward of a unit with a head begins there.
    if (pass.gathers_ahead && !has_tail()) gather_ahead(first, Pass::backward, "unit_before");
    own_gradients();
    Ops reduced = std::exchange(last, {});
    collect_gradients(last);
    if (traits_.is_flat) join_gradients(last);
    // Frees the unit's parameters, and then the input of the next unit's reduction, which is over.
    hold(last, {"unit", "end_of_backward"}, whole);
    if (!pass.frees) leave(Pass::backward, handed::parameters, 0, whole);
    std::ranges::move(reduced, std::back_inserter(last));
    if (pass.reduces) {
      TensorId const input = reduce_input(last);
      if (beside_.before != nullptr) {
        leave(Pass::backward, handed::reduce_input, 0, input);
      } else {
        reduce(last, last, "unit_gradients", 0, input, false);
      }
    } else {
      add_up(last);
    }
    enclose(block_.backward, std::move(first), std::move(last));
  }

  /// Reduces what the unit behind has left, beside the own backward.
  void reduce_behind(Ops& first, Ops& last) {
    std::int64_t const elements = elements_of(*beside_.behind, traits_);
    TensorId const input =
        make_gathered({"gradients_behind", "reduce_input"}, elements, traits_.types.reduced);
    take(Pass::backward, handed::reduce_input, 1, input);
    reduce(first, last, "gradients_behind", 1, input, true);
  }

  /// Appends the reduction of a unit to `begin`; to `end`, what is done once it is over.
  void reduce(Ops& begin,
              Ops& end,
              std::string_view whose,
              std::int32_t position,
              TensorId input,
              bool is_beside) {
    UnitTypes const& types = traits_.types;
    std::int64_t const shard = block_.tensor(input).shape.elements() / traits_.ranks;
    bool const makes_gradient = !passes_.has_reduced && types.reduced == types.stored;
    TensorId const part = makes_gradient
                              ? make({whose, "shard"}, shard, types.stored, Category::gradients)
                              : make_gathered({whose, "part"}, shard, types.reduced);
    append_collective(begin, OpKind::reduce_scatter, {whose, "reduce_scatter"}, input, part)
        .asynchronous = is_beside;
    if (traits_.copies) {
      Op& sum = append_collective(begin, OpKind::all_reduce, {whose, "all_reduce"}, part, part);
      sum.stream = Stream::sum_over_copies;
      sum.group = traits_.copies;
      sum.asynchronous = is_beside;
    }
    hold(end, {whose, "reduced"}, part);
    if (makes_gradient) {
      leave(Pass::backward, handed::gradient_shard, position, part);
      return;
    }
    TensorId const kept = make({whose, "shard"}, shard, types.stored, Category::gradients);
    if (passes_.has_reduced) {
      append(end, OpKind::add, {whose, "add"}, {kept, part}, {kept});
      pass_on(Pass::backward, handed::gradient_shard, position, kept);
    } else {
      append(end, OpKind::pack_unit, {whose, "widen"}, {part}, {kept});
      leave(Pass::backward, handed::gradient_shard, position, kept);
    }
  }

  /// Makes the gradients buffers of the microbatch, in the type of activations. Kernels write them
  /// instead of adding to them; only lookups of embeddings add, to zeros.
  void own_gradients() {
    for (Parameter const& parameter : block_.parameters) {
      TensorId const id = parameter.gradient;
      Tensor& gradient = block_.tensors[static_cast<std::size_t>(id)];
      Bytes const before = gradient.bytes();
      gradient.type = traits_.types.gathered;
      gradient.category = Category::gathered;
      gradient.lifetime = Lifetime::microbatch;
      Bytes const now = gradient.bytes();
      bool is_first = true;
      for (std::size_t i = 0; i < block_.backward.size(); ++i) {
        Op& op = block_.backward[i];
        if (std::ranges::find(op.writes, id) == op.writes.end()) continue;
        auto* const gemm = std::get_if<GemmAttributes>(&op.attributes);
        if (gemm != nullptr) {
          // Others touch little of a gradient, or vectors.
          std::int64_t const times = gemm->shape.accumulate ? 2 : 1;
          op.traffic = Bytes{op.traffic.count() - times * (before.count() - now.count())};
          gemm->output = traits_.types.gathered;
        }
        if (!std::exchange(is_first, false)) continue;
        if (gemm != nullptr && gemm->shape.accumulate) {
          gemm->shape.accumulate = false;
          op.traffic = Bytes{op.traffic.count() - now.count()};
        } else if (op.kind == OpKind::embedding_backward) {
          Ops zero;
          append(zero, OpKind::zero_fill, {"unit_gradients", "zero"}, {}, {id});
          block_.backward.insert(block_.backward.begin() + static_cast<std::ptrdiff_t>(i),
                                 zero.front());
          ++i;
        }
      }
    }
  }

  /// Appends what makes one flat tensor of all gradients, as the backward of its split into
  /// parameters does.
  void join_gradients(Ops& ops) {
    TensorId const flat =
        make_gathered({"unit_gradients", "flat"}, elements_, traits_.types.gathered);
    copy_together(ops, {"unit_gradients", "join"}, flat);
    gradients_ = {flat};
  }

  /// Appends copies of all gradients into one buffer, as many at a time as an op takes.
  void copy_together(Ops& ops, Name name, TensorId whole) {
    TensorList parts;
    Bytes moved;  // what is read, and as many elements of the whole, which are written
    auto const flush = [&] {
      if (parts.size() == 0) return;
      append(ops, OpKind::pack_unit, name, parts, {whole}).traffic = moved;
      parts = {};
      moved = {};
    };
    for (TensorId const gradient : gradients_) {
      if (parts.size() == TensorList::capacity) flush();
      parts.push_back(gradient);
      Tensor const& part = block_.tensor(gradient);
      moved +=
          part.bytes() + Bytes{part.shape.elements() * element_size(block_.tensor(whole).type)};
    }
    flush();
  }

  /// A flat gradient adds up in its own type, others in that of the reduction.
  ElementType type_of_sum() const {
    return traits_.is_flat ? traits_.types.gathered : traits_.types.reduced;
  }

  /// The gradients that earlier microbatches have added up.
  TensorId sum_so_far() {
    TensorId const sum = make_gathered({"unit_gradients", "sum"}, elements_, type_of_sum());
    if (passes_.adds_up) take(Pass::backward, handed::gradients, 0, sum);
    return sum;
  }

  /// Adds the gradients to those of earlier microbatches, parameter by parameter.
  void add_to(Ops& ops, TensorId sum) {
    for (TensorId const gradient : gradients_) {
      std::int64_t const elements = block_.tensor(gradient).shape.elements();
      std::int64_t const bytes = (passes_.adds_up ? 2 : 1) * element_size(type_of_sum()) +
                                 element_size(traits_.types.gathered);
      bool const is_sum = passes_.adds_up;
      Op& op = append(ops, is_sum ? OpKind::add : OpKind::pack_unit, {"unit_gradients", "add_up"},
                      is_sum ? TensorList{sum, gradient} : TensorList{gradient}, {sum});
      op.traffic = Bytes{elements * bytes};
    }
  }
  void add_up(Ops& ops) {
    TensorId const sum = sum_so_far();
    add_to(ops, sum);
    leave(Pass::backward, handed::gradients, 0, sum);
  }

  /// Appends what makes the input of a reduction. It is the flat gradient itself, if that has its
  /// type.
  TensorId reduce_input(Ops& ops) {
    if (passes_.adds_up) {
      TensorId const sum = sum_so_far();
      add_to(ops, sum);
      gradients_ = {sum};
    }
    if (traits_.is_flat && traits_.types.reduced == traits_.types.gathered) {
      return gradients_.front();
    }
    TensorId const input =
        make_gathered({"unit_gradients", "reduce_input"}, elements_, traits_.types.reduced);
    copy_together(ops, {"unit_gradients", "copy_in"}, input);
    return input;
  }

  static void enclose(Ops& ops, Ops first, Ops last) {
    first.insert(first.end(), std::make_move_iterator(ops.begin()),
                 std::make_move_iterator(ops.end()));
    first.insert(first.end(), std::make_move_iterator(last.begin()),
                 std::make_move_iterator(last.end()));
    ops = std::move(first);
  }

  BlockProgram& block_;
  UnitTraits const& traits_;
  Neighbours const& beside_;
  UnitPasses const& passes_;
  std::int64_t elements_;
  TensorId whole_ = no_tensor;       ///< the parameters that forward reads
  std::vector<TensorId> gradients_;  ///< of the unit, once backward is over
};

}  // namespace

void write_unit(BlockProgram& block,
                UnitTraits const& traits,
                Neighbours const& beside,
                UnitPasses const& passes) {
  UnitWriter{block, traits, beside, passes}.write();
}

}  // namespace stagecraft
