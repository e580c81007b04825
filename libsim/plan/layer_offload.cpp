#include "libsim/plan/layer_offload.hpp"

#include <algorithm>
#include <array>
#include <compare>
#include <cstddef>
#include <cstdint>
#include <map>
#include <stdexcept>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/program/liveness.hpp"

namespace stagecraft {
namespace {

/// Tensors of fewer elements stay on the device (Transformer Engine, cpu_offload.py).
constexpr std::int64_t least_elements = 262144;

/// "saved_00" to "saved_99": what a layer leaves to another, by number.
constexpr std::size_t most_buffers = 100;
constexpr std::size_t name_length = 8;
constexpr auto letters_of_names = [] {
  std::array<char, most_buffers * name_length> letters{};
  for (std::size_t i = 0; i < most_buffers; ++i) {
    std::string_view const stem = "saved_";
    for (std::size_t k = 0; k < stem.size(); ++k) letters[i * name_length + k] = stem[k];
    letters[i * name_length + stem.size()] = static_cast<char>('0' + i / 10);
    letters[i * name_length + stem.size() + 1] = static_cast<char>('0' + i % 10);
  }
  return letters;
}();

std::string_view name_of_buffer(std::size_t number) {
  if (number >= most_buffers) throw std::length_error{"a layer saves more than 100 buffers"};
  return {&letters_of_names[number * name_length], name_length};
}

/// The buffers of a layer that are offloaded.
std::vector<TensorId> offloaded_buffers(BlockProgram const& block) {
  std::vector<TensorId> buffers;
  for (BufferLife const& life : block.lives) {
    Tensor const& tensor = block.tensor(life.buffer);
    bool const is_activation = tensor.category == Category::activations;
    if (life.is_saved() && life.release != BufferLife::outside && is_activation &&
        tensor.shape.elements() >= least_elements) {
      buffers.push_back(life.buffer);
    }
  }
  return buffers;
}

Bytes offloaded_bytes(BlockProgram const& block) {
  Bytes sum;
  for (TensorId const buffer : offloaded_buffers(block)) sum += block.tensor(buffer).bytes();
  return sum;
}

/// What a block frees, allocates and copies for its own layer and for others. The number of a block
/// is -1 where there is no such layer.
struct LayerRole {
  std::int32_t block = 0;
  bool is_offloaded = false;
  std::int32_t released = -1;  ///< the block whose buffers go when it begins
  std::int32_t reloaded = -1;  ///< the block whose buffers its backward allocates
  std::int64_t away = 0;       ///< bytes that its forward copies
  std::int64_t back = 0;       ///< bytes that its backward copies

  friend auto operator<=>(LayerRole const&, LayerRole const&) = default;
};

/// Adds to a layer's block what its role says.
class RoleWriter {
 public:
  /// `copies_at_once`: whether copies are waited for before the pass goes on.
  RoleWriter(BlockProgram& block, std::vector<BlockProgram> const& blocks, bool copies_at_once)
      : block_{block}, blocks_{blocks}, copies_at_once_{copies_at_once} {
    for (Pass const pass : {Pass::forward, Pass::backward}) {
      std::erase_if(block_.ops(pass), [](Op const& op) { return op.kind == OpKind::wait; });
      for (Op& op : block_.ops(pass)) op.waits_for = -1;
    }
  }

  /// `distance`: from a layer to the one whose forward releases its buffers.
  void write(LayerRole const& role, std::int32_t distance) {
    // If the distance is 1, the layer's own backward allocates its buffers.
    bool const others_reload = distance > 1;
    std::vector<TensorId> reloaded;
    if (role.is_offloaded) reloaded = exchange_saved(others_reload);
    std::vector<Op> forward;
    std::vector<Op> backward;
    if (role.away > 0) copy(forward, Stream::to_host, "to_host", role.away);
    if (role.released >= 0) {
      hold(forward, "released", hand(Pass::forward, "released", role.released, -distance));
    }
    if (role.reloaded >= 0) {
      if (others_reload) {
        reloaded = hand(Pass::backward, "reloaded", role.reloaded, 1 - distance);
      }
      hold(backward, "reloaded", reloaded);
    }
    if (role.back > 0) copy(backward, Stream::from_host, "from_host", role.back);
    prepend(block_.forward, std::move(forward));
    prepend(block_.backward, std::move(backward));
    insert_waits(block_);
    derive_liveness(block_);
  }

 private:
  /// Lets the forward leave what it has saved, and the backward read copies, which it takes from
  /// another layer if that `is_handed`. Returns the copies.
  std::vector<TensorId> exchange_saved(bool is_handed) {
    std::vector<TensorId> copies;
    for (TensorId const buffer : offloaded_buffers(block_)) {
      std::string_view const what = name_of_buffer(copies.size());
      TensorId const copy = read_copy(buffer);
      block_.handovers.push_back({.pass = Pass::forward, .what = what, .left = buffer});
      if (is_handed) {
        block_.handovers.push_back({.pass = Pass::backward, .what = what, .taken = copy});
      }
      copies.push_back(copy);
    }
    return copies;
  }

  /// Lets all ops of the backward use a copy of a buffer, which is returned.
  TensorId read_copy(TensorId buffer) {
    std::map<TensorId, TensorId> copies{{buffer, append(block_.tensor(buffer))}};
    TensorId const whole = copies.at(buffer);
    for (Op& op : block_.backward) {
      for (TensorList* const operands : {&op.reads, &op.writes}) {
        for (TensorId& id : *operands) {
          if (block_.tensor(id).buffer != buffer) continue;
          if (!copies.contains(id)) {
            copies[id] = append(block_.tensor(id));
            block_.tensors.back().buffer = whole;
          }
          id = copies.at(id);
        }
      }
    }
    return whole;
  }

  TensorId append(Tensor tensor) {
    auto const id = static_cast<TensorId>(block_.tensors.size());
    tensor.rebuilt = true;
    tensor.buffer = id;
    block_.tensors.push_back(tensor);
    return id;
  }

  /// Takes the buffers of another layer (forward), or leaves them to it (backward), and returns
  /// them.
  std::vector<TensorId> hand(Pass pass,
                             std::string_view owner,
                             std::int32_t other,
                             std::int32_t position) {
    BlockProgram const& layer = blocks_[static_cast<std::size_t>(other)];
    std::vector<TensorId> made;
    for (TensorId const buffer : offloaded_buffers(layer)) {
      std::string_view const what = name_of_buffer(made.size());
      TensorId const id = append(layer.tensor(buffer));
      block_.tensors.back().name = {owner, what};
      Handover handover{.pass = pass, .what = what, .position = position};
      (pass == Pass::forward ? handover.taken : handover.left) = id;
      block_.handovers.push_back(handover);
      made.push_back(id);
    }
    return made;
  }

  static Op& add(std::vector<Op>& ops, OpKind kind, std::string_view name) {
    Op& op = ops.emplace_back();
    op.kind = kind;
    op.name = {"offload", name};
    op.phase = Phase::offload;
    op.module = "offload";
    return op;
  }

  /// Ops at which these buffers exist.
  static void hold(std::vector<Op>& ops,
                   std::string_view name,
                   std::vector<TensorId> const& buffers) {
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      Op& op = i % TensorList::capacity == 0 ? add(ops, OpKind::hold, name) : ops.back();
      op.reads.push_back(buffers[i]);
    }
  }

  void copy(std::vector<Op>& ops, Stream stream, std::string_view name, std::int64_t bytes) const {
    Op& op = add(ops, OpKind::copy_state, name);
    op.stream = stream;
    op.payload = op.traffic = Bytes{bytes};
    op.asynchronous = !copies_at_once_;
  }

  static void prepend(std::vector<Op>& ops, std::vector<Op> first) {
    first.insert(first.end(), ops.begin(), ops.end());
    ops = std::move(first);
  }

  BlockProgram& block_;
  std::vector<BlockProgram> const& blocks_;
  bool copies_at_once_;
};

/// Copies the blocks of chunks for the layers at which they differ.
class OffloadedChunks {
 public:
  OffloadedChunks(int offloaded, Programs& programs)
      : offloaded_{offloaded}, programs_{programs}, before_{std::exchange(programs.blocks, {})} {}

  void rewrite(ChunkProgram& chunk) {
    std::vector<std::int32_t> layers;
    for (std::int32_t const block : chunk.blocks) {
      if (program(block).kind == BlockProgram::Kind::layers) layers.push_back(block);
    }
    std::vector<LayerRole> const roles = roles_of(layers);
    auto role = roles.begin();
    for (std::int32_t& block : chunk.blocks) {
      bool const is_layer = program(block).kind == BlockProgram::Kind::layers;
      block = copy(is_layer ? *role++ : LayerRole{.block = block},
                   static_cast<std::int32_t>(layers.size()) - offloaded_);
    }
  }

 private:
  BlockProgram const& program(std::int32_t block) const {
    return before_[static_cast<std::size_t>(block)];
  }
  std::int64_t saved(std::int32_t block) const { return offloaded_bytes(program(block)).count(); }

  std::vector<LayerRole> roles_of(std::vector<std::int32_t> const& layers) {
    auto const count = static_cast<int>(layers.size());
    int const distance = count - offloaded_;
    std::vector<LayerRole> roles(layers.size());
    std::int64_t all = 0;
    for (int i = 0; i < count; ++i) {
      LayerRole& role = roles[static_cast<std::size_t>(i)];
      role.block = layers[static_cast<std::size_t>(i)];
      role.is_offloaded = i < offloaded_;
      if (role.is_offloaded) all += saved(role.block);
      int const released = i - distance;
      if (released >= 0) role.released = layers[static_cast<std::size_t>(released)];
      int const reloaded = released + 1;
      if (reloaded >= 0 && reloaded < offloaded_) {
        role.reloaded = layers[static_cast<std::size_t>(reloaded)];
      }
    }
    programs_.offloaded = std::max(programs_.offloaded, Bytes{all});
    for (int i = 0; i < count; ++i) {
      LayerRole& role = roles[static_cast<std::size_t>(i)];
      if (copies_at_once(distance)) {
        if (role.released >= 0) role.away = saved(role.released);
        if (role.reloaded >= 0) role.back = saved(role.reloaded);
      } else if (i > 0 && i + 1 < count) {
        role.away = all * i / (count - 2) - all * (i - 1) / (count - 2);
        role.back = role.away;
      }
    }
    return roles;
  }

  static bool copies_at_once(int distance) { return distance == 1; }

  std::int32_t copy(LayerRole const& role, std::int32_t distance) {
    auto const [place, is_new] =
        known_.try_emplace(role, static_cast<std::int32_t>(programs_.blocks.size()));
    if (!is_new) return place->second;
    BlockProgram made = program(role.block);
    if (role != LayerRole{.block = role.block}) {
      RoleWriter{made, before_, copies_at_once(distance)}.write(role, distance);
    }
    programs_.blocks.push_back(std::move(made));
    return place->second;
  }

  int offloaded_;
  Programs& programs_;
  std::vector<BlockProgram> before_;
  std::map<LayerRole, std::int32_t> known_;
};

}  // namespace

void offload_layers(TrainingConfig const& config, Programs& programs) {
  OffloadedChunks chunks{config.offload.activations.layers, programs};
  for (ChunkProgram& chunk : programs.chunks) chunks.rewrite(chunk);
}

}  // namespace stagecraft
