#include "libsim/plan/offload/layer_offload.hpp"

#include <compare>
#include <cstddef>
#include <cstdint>
#include <numeric>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/plan/offload/offload_ops.hpp"
#include "libsim/program/liveness.hpp"

namespace stagecraft {
namespace {

/// Tensors of fewer elements stay on the device (Transformer Engine, cpu_offload.py).
constexpr std::int64_t least_elements = 262144;

/// The buffers of a layer that are offloaded.
std::vector<TensorId> offloaded_buffers(BlockProgram const& block) {
  std::vector<TensorId> buffers;
  for (BufferLife const& life : block.lives) {
    bool const is_large = block.tensor(life.buffer).shape.elements() >= least_elements;
    if (is_large && may_leave(block, life)) buffers.push_back(life.buffer);
  }
  return buffers;
}

Bytes offloaded_bytes(BlockProgram const& block) {
  Bytes sum;
  for (TensorId const buffer : offloaded_buffers(block)) sum += block.tensor(buffer).bytes();
  return sum;
}

/// What a block frees, allocates and copies for its own layer and for others. A block number is -1
/// if there is no such layer.
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
    remove_waits(block_);
  }

  /// `distance`: from a layer to the one whose forward releases its buffers.
  void write(LayerRole const& role, std::int32_t distance) {
    // If the distance is 1, the layer's own backward allocates its buffers.
    bool const others_reload = distance > 1;
    std::vector<TensorId> reloaded;
    if (role.is_offloaded) reloaded = exchange_saved(others_reload);
    std::vector<Op> forward;
    std::vector<Op> backward;
    if (role.away > 0) copy(forward, Stream::to_host, role.away);
    if (role.released >= 0) {
      append_hold(forward, "released", hand(Pass::forward, "released", role.released, -distance));
    }
    if (role.reloaded >= 0) {
      if (others_reload) {
        reloaded = hand(Pass::backward, "reloaded", role.reloaded, 1 - distance);
      }
      append_hold(backward, "reloaded", reloaded);
    }
    if (role.back > 0) copy(backward, Stream::from_host, role.back);
    prepend(block_.forward, std::move(forward));
    prepend(block_.backward, std::move(backward));
    insert_waits(block_);
    derive_liveness(block_);
  }

 private:
  /// Lets the forward leave what it has saved, and the backward read copies, which it takes from
  /// another layer if that `is_handed`. Returns the copies.
  std::vector<TensorId> exchange_saved(bool is_handed) {
    std::vector<std::size_t> all(block_.backward.size());
    std::iota(all.begin(), all.end(), std::size_t{0});
    std::vector<TensorId> copies;
    for (TensorId const buffer : offloaded_buffers(block_)) {
      std::string_view const what = name_of_saved(copies.size());
      TensorId const copy = read_returned(block_, buffer, all);
      block_.handovers.push_back({.pass = Pass::forward, .what = what, .left = buffer});
      if (is_handed) {
        block_.handovers.push_back({.pass = Pass::backward, .what = what, .taken = copy});
      }
      copies.push_back(copy);
    }
    return copies;
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
      std::string_view const what = name_of_saved(made.size());
      TensorId const id = append_returned(block_, layer.tensor(buffer));
      block_.tensors.back().name = {owner, what};
      Handover handover{.pass = pass, .what = what, .position = position};
      (pass == Pass::forward ? handover.taken : handover.left) = id;
      block_.handovers.push_back(handover);
      made.push_back(id);
    }
    return made;
  }

  void copy(std::vector<Op>& ops, Stream stream, std::int64_t bytes) const {
    append_link_copy(ops, stream, Bytes{bytes}).asynchronous = !copies_at_once_;
  }

  BlockProgram& block_;
  std::vector<BlockProgram> const& blocks_;
  bool copies_at_once_;
};

using LayerBlocks = RoleBlocks<LayerRole>;

bool copies_at_once(int distance) { return distance == 1; }

/// The roles of the layers of a chunk.
std::vector<LayerRole> roles_of(LayerBlocks const& blocks,
                                std::vector<std::int32_t> const& layers,
                                int offloaded) {
  auto const saved = [&](std::int32_t block) {
    return offloaded_bytes(blocks.before(block)).count();
  };
  auto const count = static_cast<int>(layers.size());
  int const distance = count - offloaded;
  std::vector<LayerRole> roles(layers.size());
  std::int64_t all = 0;
  for (int i = 0; i < count; ++i) {
    LayerRole& role = roles[static_cast<std::size_t>(i)];
    role.block = layers[static_cast<std::size_t>(i)];
    role.is_offloaded = i < offloaded;
    if (role.is_offloaded) all += saved(role.block);
    int const released = i - distance;
    if (released >= 0) role.released = layers[static_cast<std::size_t>(released)];
    int const reloaded = released + 1;
    if (reloaded >= 0 && reloaded < offloaded) {
      role.reloaded = layers[static_cast<std::size_t>(reloaded)];
    }
  }
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

}  // namespace

void offload_layers(TrainingConfig const& config, Programs& programs) {
  int const offloaded = config.offload.activations.layers;
  LayerBlocks blocks{programs};
  for (ChunkProgram& chunk : programs.chunks) {
    std::vector<std::int32_t> const layers = blocks.layers_of(chunk);
    auto const distance = static_cast<std::int32_t>(layers.size()) - offloaded;
    std::vector<LayerRole> const roles = roles_of(blocks, layers, offloaded);
    for (LayerRole const& role : roles) {
      if (role.is_offloaded) chunk.offloaded += offloaded_bytes(blocks.before(role.block));
    }
    blocks.assign(chunk, roles, [&](BlockProgram& block, LayerRole const& role) {
      RoleWriter{block, blocks.before(), copies_at_once(distance)}.write(role, distance);
    });
  }
}

}  // namespace stagecraft
