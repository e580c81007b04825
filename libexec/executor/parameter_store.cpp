#include "libexec/executor/parameter_store.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <numbers>
#include <stdexcept>
#include <string_view>
#include <tuple>
#include <vector>

#include "libexec/backends/numbers.hpp"
#include "libexec/executor/executable.hpp"
#include "libexec/kernels/dropout.hpp"
#include "libsim/plan/units/unit_block.hpp"
#include "libsim/units/fnv_hash.hpp"

namespace stagecraft {
namespace {

/// A parameter within one chunk.
using Key = std::tuple<std::int32_t, std::int64_t, std::string>;

/// The use of the embedding in blocks behind the layers, where one rank has both.
constexpr Name embedding_weight{"embedding", "weight"};

void write_numbers(Backend& backend, FlatRange const& range, std::span<double const> numbers) {
  std::vector<std::byte> const bytes = encode(numbers, range.type);
  backend.write(range.data, bytes.data(), bytes.size());
}

std::span<double const> part_of(std::span<double const> values,
                                PlacedParameter const& placed,
                                OwnedRun const& run) {
  return values.subspan(static_cast<std::size_t>(run.first - placed.offset),
                        static_cast<std::size_t>(run.count));
}

constexpr std::uint32_t stream = 0x1417a115U;  ///< differs from masks and data

/// The unit whose shard a block at `position` gathers: its own, or the one that runs next.
std::size_t position_of_unit(Tensor const& shard, std::size_t position) {
  std::string_view const owner = shard.name.owner;
  if (owner == unit_names::ahead) return position + 1;
  if (owner == unit_names::before) return position - 1;
  if (owner == unit_names::gathered || owner == unit_names::again) return position;
  throw std::logic_error{to_string(shard.name) + " is of no unit that is known"};
}

/// A normal number for each index of a tensor.
/// Source: Box and Muller 1958, "A note on the generation of random normal deviates".
class NormalNumbers {
 public:
  NormalNumbers(std::uint32_t seed, std::string_view tensor)
      : seed_{seed}, tensor_{fnv_hash(tensor)} {}

  double operator()(std::int64_t index) const {
    auto const i = static_cast<std::uint64_t>(index);
    PhiloxBlock const words = philox(
        {{static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(i >> 32), tensor_, stream}},
        seed_, stream);
    double const u = (words.word[0] + 1.0) * 0x1p-32;  // in (0, 1]
    double const v = words.word[1] * 0x1p-32;
    return std::sqrt(-2 * std::log(u)) * std::cos(2 * std::numbers::pi * v);
  }

 private:
  std::uint32_t seed_;
  std::uint32_t tensor_;
};

/// The rank's part of a tensor.
std::vector<double> values_of(RankContext const& context, PlacedParameter const& placed) {
  TrainingConfig const& config = context.plan.config;
  std::vector<double> values(static_cast<std::size_t>(placed.elements()));
  ParameterWindow const window = context.window(placed);
  ParameterStart const start = placed.parameter->start;
  double deviation = config.training.init_std;
  if (start == ParameterStart::normal_output) {
    deviation /= std::sqrt(2.0 * static_cast<double>(config.model.layers));
  }
  NormalNumbers const normal{static_cast<std::uint32_t>(config.training.seed), placed.name()};
  for (RowRange const& rows : window.rows) {
    for (std::int64_t i = 0; i < rows.count; ++i) {
      for (std::int64_t j = 0; j < window.columns; ++j) {
        std::int64_t const whole =
            (rows.whole + i) * window.whole_columns + window.first_column + j;
        double& value = values[static_cast<std::size_t>((rows.local + i) * window.columns + j)];
        switch (start) {
          case ParameterStart::normal:
          case ParameterStart::normal_output:
            value = deviation * normal(whole);
            break;
          case ParameterStart::zero:
            value = 0;
            break;
          case ParameterStart::one:
            value = 1;
            break;
        }
      }
    }
  }
  return values;
}

}  // namespace

ParameterStore::ParameterStore(RankContext const& context)
    : stage_{context.program}, layout_{parameter_layout(context.plan, context.program)} {
  require_executable(context.plan.config);
  for (PlacedParameter const& placed : layout_) elements_ += placed.elements();
  find_owned(context);
  if (context.plan.config.sharding.shares_parameters()) find_units(context.programs);
  find_operands(context.programs);
  for (StateBuffer const& kept : stage_.state) {
    if (kept.lifetime == Lifetime::iteration) continue;  // units make it
    auto const index = static_cast<std::size_t>(kept.tensor);
    buffers_[index] = context.allocator.allocate({.name = step_tensors[index].name}, kept.category,
                                                 kept.type, {kept.elements});
    fill_zero(context.backend, tensor(kept.tensor));
  }
}

void ParameterStore::find_owned(RankContext const& context) {
  std::int64_t state = 0;
  for (ShardedRun const& run : stage_.sharded_runs) {
    auto const holders =
        context.plan.groups.membership(context.plan.roles.unit.value_or(run.holders), context.rank);
    std::int64_t const own = run.shards > 1 ? holders.value().member : 0;
    std::int64_t const shard = run.shard();
    std::int64_t const begin = std::min(run.count, own * shard);
    std::int64_t const end = std::min(run.count, begin + shard);
    if (begin < end) owned_.push_back({run.first + begin, end - begin, state});
    state += shard;
  }
}

void ParameterStore::find_units(Programs const& programs) {
  std::int64_t state = 0;
  for (std::size_t i = 0; i < layout_.size(); ++i) {
    PlacedParameter const& placed = layout_[i];
    ChunkId const chunk = programs.chunks[static_cast<std::size_t>(placed.chunk)].chunk;
    auto const [unit, is_new] =
        units_.try_emplace({chunk, static_cast<std::size_t>(placed.block)}, Unit{.state = state});
    std::int64_t const shard = stage_.sharded_runs[i].shard();  // each parameter is a run
    unit->second.count += shard;
    state += shard;
  }
}

void ParameterStore::place_gradients(ChunkId chunk, std::size_t block, std::byte* data) {
  units_.at({chunk, block}).gradients = data;
}

FlatRange ParameterStore::tensor(TensorId tensor) const {
  StateBuffer const& kept = stage_.state_of(tensor);
  return {buffers_[static_cast<std::size_t>(tensor)].data(), kept.type, kept.elements};
}

FlatRange ParameterStore::part(TensorId tensor, OwnedRun const& run) const {
  if (tensor == step_tensor::gradients && !units_.empty()) {
    auto const unit = std::ranges::find_if(units_, [&](auto const& entry) {
      Unit const& of = entry.second;
      return run.state >= of.state && run.state < of.state + of.count;
    });
    if (unit == units_.end()) throw std::logic_error{"gradients of a run that is in no unit"};
    Unit const& of = unit->second;
    return FlatRange{of.gradients, stage_.state_of(tensor).type, of.count}.part(
        run.state - of.state, run.count);
  }
  bool const is_shared = stage_.state_of(tensor).where.is_shared;
  return this->tensor(tensor).part(is_shared ? run.state : run.first, run.count);
}

bool ParameterStore::has_master() const {
  return std::ranges::any_of(
      stage_.state, [](StateBuffer const& kept) { return kept.tensor == step_tensor::master; });
}

std::vector<OwnedRun> ParameterStore::owned(std::int64_t first, std::int64_t count) const {
  std::vector<OwnedRun> parts;
  for (OwnedRun const& run : owned_) {
    std::int64_t const begin = std::max(first, run.first);
    std::int64_t const end = std::min(first + count, run.first + run.count);
    if (begin < end) parts.push_back({begin, end - begin, run.state + begin - run.first});
  }
  return parts;
}

void ParameterStore::find_operands(Programs const& programs) {
  std::int64_t counters = 0;  // elements
  std::map<Key, std::int64_t> known;
  std::map<Key, std::int64_t> known_counters;
  std::int64_t copies = 0;  // bytes of quantised weights
  std::map<Key, std::int64_t> known_copies;
  for (PlacedParameter const& placed : layout_) {
    known[{placed.chunk, placed.layer, to_string(placed.weight->name)}] = placed.offset;
  }
  operands_.resize(programs.chunks.size());
  IdVector<ChunkId, StageChunk> const& chunks = stage_.chunks;
  auto const embedding = std::ranges::find_if(chunks, [&](StageChunk const& chunk) {
    return programs.chunks[static_cast<std::size_t>(chunk.program)].has_embedding;
  });
  for (std::size_t i = 0; i < programs.chunks.size(); ++i) {
    ChunkProgram const& chunk = programs.chunks[i];
    if (chunk.stage != stage_.stage) continue;
    // Programs that store a window of microbatches share the parameters.
    std::int32_t const owner = chunks[chunk.chunk].program;
    for (std::size_t position = 0; position < chunk.blocks.size(); ++position) {
      BlockProgram const& block = programs.blocks[static_cast<std::size_t>(chunk.blocks[position])];
      std::vector<OperandPlace>& operands = operands_[i].emplace_back(block.tensors.size());
      for (Parameter const& parameter : block.parameters) {
        Tensor const& weight = block.tensor(parameter.weight);
        std::int64_t const layer =
            layer_of(block.kind, first_layer_of(programs, chunk, position), weight.layer);
        Key const key{parameter.shared ? embedding->program : owner, layer,
                      to_string(parameter.shared ? embedding_weight : weight.name)};
        std::int64_t const offset = known.at(key);
        operands[static_cast<std::size_t>(parameter.weight)] = {offset, step_tensor::parameters};
        operands[static_cast<std::size_t>(parameter.gradient)] = {offset, step_tensor::gradients};
      }
      for (std::size_t id = 0; id < block.tensors.size(); ++id) {
        Tensor const& shard = block.tensors[id];
        if (shard.lifetime != Lifetime::job || shard.name.part != unit_names::shard) continue;
        operands[id] = {units_.at({chunk.chunk, position_of_unit(shard, position)}).state,
                        step_tensor::parameters};
      }
      auto const place_next = [&](TensorId id, std::map<Key, std::int64_t>& placed,
                                  std::int64_t& end, std::int64_t size, TensorId in) {
        Tensor const& tensor = block.tensor(id);
        std::int64_t const layer =
            layer_of(block.kind, first_layer_of(programs, chunk, position), tensor.layer);
        auto const [place, is_new] =
            placed.try_emplace({owner, layer, to_string(tensor.name)}, end);
        if (is_new) end += size;
        operands[static_cast<std::size_t>(id)] = {place->second, in};
      };
      for (TensorId const id : block.counters) {
        place_next(id, known_counters, counters, block.tensor(id).shape.elements(),
                   step_tensor::counters);
      }
      for (QuantisedWeight const& kept : block.quantised_weights) {
        for (TensorId const id : {kept.rows, kept.columns}) {
          if (id == no_tensor) continue;
          place_next(id, known_copies, copies, block.tensor(id).bytes().count(),
                     step_tensor::quantised_weights);
        }
      }
    }
  }
}

void* ParameterStore::data_of(std::int32_t chunk_program,
                              std::size_t block,
                              TensorId tensor) const {
  OperandPlace const& place =
      operands_[static_cast<std::size_t>(chunk_program)][block][static_cast<std::size_t>(tensor)];
  if (place.in == no_tensor) {
    throw std::logic_error{"a tensor of the job's lifetime is in no buffer of the state"};
  }
  return this->tensor(place.in).part(place.offset, 0).data;
}

void ParameterStore::set(Backend& backend,
                         PlacedParameter const& placed,
                         std::span<double const> values) {
  bool const is_shared = stage_.state_of(step_tensor::parameters).where.is_shared;
  if (!is_shared) write_numbers(backend, weights().part(placed.offset, placed.elements()), values);
  if (!is_shared && !has_master()) return;
  for (OwnedRun const& run : owned(placed.offset, placed.elements())) {
    write_numbers(backend, master(run), part_of(values, placed, run));
  }
}

void ParameterStore::set_moments(Backend& backend,
                                 PlacedParameter const& placed,
                                 std::span<double const> first,
                                 std::span<double const> second) {
  for (OwnedRun const& run : owned(placed.offset, placed.elements())) {
    write_numbers(backend, part(step_tensor::first_moment, run), part_of(first, placed, run));
    write_numbers(backend, part(step_tensor::second_moment, run), part_of(second, placed, run));
  }
}

void start_parameters(RankContext const& context, ParameterStore& store) {
  for (PlacedParameter const& placed : store.layout()) {
    store.set(context.backend, placed, values_of(context, placed));
  }
}

void fill_parameters(RankContext const& context, ParameterStore& store) {
  // Uniform numbers of this width have the standard deviation that parameters start with.
  double const width = 2 * std::sqrt(3.0) * context.plan.config.training.init_std;
  auto const fill = [&](FlatRange const& range) {
    RandomNumbers{range.type, stream, width}.write(context.backend, range.data, range.bytes());
  };
  fill(store.weights());
  if (!store.has_master()) return;
  for (auto const& run : store.owned()) fill(store.master(run));
}

}  // namespace stagecraft
