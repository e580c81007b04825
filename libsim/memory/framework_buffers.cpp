#include "libsim/memory/framework_buffers.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <string>

#include "libsim/memory/message_buffers.hpp"
#include "libsim/plan/parameter_layout.hpp"
#include "libsim/plan/state_buffers.hpp"
#include "libsim/plan/units/sharded_units.hpp"
#include "libsim/plan/units/unit_types.hpp"

namespace stagecraft {
namespace {

constexpr std::int64_t time_per_kernel = 1000;

/// The bytes that an op writes.
struct WrittenBytes {
  std::int64_t all = 0;
  std::int64_t largest = 0;  ///< bytes of its largest tensor
};

WrittenBytes written_bytes(BlockProgram const& block, Op const& op) {
  WrittenBytes written;
  for (TensorId const tensor : op.writes) {
    std::int64_t const bytes = block.tensor(tensor).bytes().count();
    written.all += bytes;
    written.largest = std::max(written.largest, bytes);
  }
  return written;
}

/// The bytes that a table of factors gives an op.
std::int64_t bytes_of(std::map<OpKind, double> const& factors, Op const& op, std::int64_t bytes) {
  auto const found = factors.find(op.kind);
  return found == factors.end() ? 0 : std::llround(found->second * static_cast<double>(bytes));
}

/// Whether a block's backward pass computes an op of this kind again.
bool recomputes(BlockProgram const& block, OpKind kind) {
  return std::any_of(block.backward.begin(), block.backward.end(),
                     [&](Op const& op) { return op.kind == kind && op.phase == Phase::recompute; });
}

/// The kind of op that has the name of `kind` with _backward appended; `kind` itself if there is
/// none.
OpKind backward_of(OpKind kind) {
  std::string const name = std::string{name_of(kind)} + "_backward";
  for (OpKind const other : op_kinds) {
    if (name_of(other) == name) return other;
  }
  return kind;
}

/// The bytes with which a bucket is full.
std::int64_t limit_of(Bytes bucket) {
  return bucket.count() > 0 ? bucket.count() : std::numeric_limits<std::int64_t>::max();
}

std::size_t gathered_index(Op const& op) { return op.phase == Phase::input_gradient ? 1 : 0; }

}  // namespace

FrameworkBuffers::FrameworkBuffers(FrameworkMemory const& framework,
                                   TrainingPlan const& plan,
                                   StagePlan const& stage,
                                   TrackedAllocator& allocator)
    : framework_{framework},
      plan_{plan},
      stage_{stage},
      allocator_{allocator},
      kept_(static_cast<std::size_t>(plan.config.parallel.interleave) *
            static_cast<std::size_t>(microbatches(plan.config))),
      inputs_(static_cast<std::size_t>(plan.config.parallel.interleave)),
      op_time_{std::llround(framework.kernels_per_op * time_per_kernel)} {
  for (auto const& [kind, factor] : framework.kept) kept_until_[backward_of(kind)] = kind;
}

/// Whether the other end of a message that a task begins or ends with is on another stage.
bool FrameworkBuffers::is_elsewhere(ChunkProgram const& chunk, Neighbour side) const {
  return is_neighbour_elsewhere(plan_.placement, {chunk.stage, chunk.chunk}, side);
}

/// Whether a task begins with what another stage has sent.
bool FrameworkBuffers::receives(Task const& task) const {
  ChunkProgram const& chunk = plan_.programs.chunks[static_cast<std::size_t>(task.program)];
  auto const blocks = static_cast<std::int32_t>(chunk.blocks.size());
  switch (task.kind) {
    case Task::Kind::forward:
      return task.first_block == 0 && is_elsewhere(chunk, Neighbour::previous);
    case Task::Kind::backward:
    case Task::Kind::input_gradient:
      return task.first_block + task.block_count == blocks && is_elsewhere(chunk, Neighbour::next);
    case Task::Kind::weight_gradient:
    case Task::Kind::recompute:
    case Task::Kind::step:
      break;
  }
  return false;
}

bool FrameworkBuffers::ends_forward(Task const& task) const {
  ChunkProgram const& chunk = plan_.programs.chunks[static_cast<std::size_t>(task.program)];
  auto const blocks = static_cast<std::int32_t>(chunk.blocks.size());
  return task.kind == Task::Kind::forward && task.first_block + task.block_count == blocks;
}

/// Whether another stage gets what a task ends with.
bool FrameworkBuffers::sends(Task const& task) const {
  ChunkProgram const& chunk = plan_.programs.chunks[static_cast<std::size_t>(task.program)];
  if (ends_forward(task)) return is_elsewhere(chunk, Neighbour::next);
  return ends_gradient(task) && is_elsewhere(chunk, Neighbour::previous);
}

/// The accelerator has done all that was launched.
void FrameworkBuffers::wait_on_host() {
  constexpr std::int64_t long_enough = std::int64_t{1} << 40;
  allocator_.whole().advance(long_enough);
  launched_ = 0;
  stands_still_ = false;
}

/// Memory that was used until now is free when the accelerator has got here. The host is then ahead
/// by the kernels that it has gained since it last waited.
void FrameworkBuffers::launch() {
  launched_ += framework_.kernels_per_op;
  auto const most = static_cast<double>(framework_.host_lead);
  double const lead = stands_still_ ? most : std::min(launched_ * framework_.host_gain, most);
  if (lead != lead_) allocator_.whole().set_event_delay(std::llround(lead * time_per_kernel));
  lead_ = lead;
  allocator_.whole().advance(op_time_);
}

bool FrameworkBuffers::allocate_resident(std::span<std::int64_t const> parameters) {
  bool const is_reduced = plan_.replicas() > 1 && stage_.shards == 1;
  if (!is_reduced || framework_.replica_gradient_bytes == 0) return true;
  // Buckets are filled from the last parameter on.
  std::int64_t bytes = 0;
  std::int64_t limit = limit_of(framework_.first_replica_bucket);
  for (auto elements = parameters.rbegin(); elements != parameters.rend(); ++elements) {
    bytes += *elements * framework_.replica_gradient_bytes;
    if (bytes < limit) continue;
    if (!allocator_.keep(bytes)) return false;
    bytes = 0;
    limit = limit_of(framework_.replica_bucket);
  }
  return allocator_.keep(bytes);
}

bool FrameworkBuffers::begin(Task const& task) {
  if (task.kind == Task::Kind::step) return true;
  if (task.kind == Task::Kind::forward) free_all(inputs_[task.chunk.index()]);
  if (framework_.host_lead > 0 && receives(task)) wait_on_host();
  bool& has_workspace = has_workspace_[task.kind == Task::Kind::forward ? 0 : 1];
  if (has_workspace) return true;
  bool const is_first = !has_workspace_[0] && !has_workspace_[1];
  has_workspace = true;
  if (is_first && !allocator_.keep(framework_.shared_workspace.count())) return false;
  return allocator_.keep(framework_.workspace.count());
}

FrameworkBuffers::OpBuffers const& FrameworkBuffers::buffers_of(BufferChange const& change) {
  auto const run = static_cast<std::size_t>(change.run);
  if (of_ops_.size() <= run) of_ops_.resize(run + 1);
  OpBuffers& buffers = of_ops_[run];
  if (buffers.is_known) return buffers;
  BlockProgram const& block = *change.block;
  Op const& op = *change.op;
  WrittenBytes const written = written_bytes(block, op);
  buffers.temporary = bytes_of(framework_.temporary, op, written.all);
  buffers.held = bytes_of(framework_.held, op, written.largest);
  if (block.prediction_modules > 0 && op.layer == block.prediction_modules && op.module == "head") {
    buffers.held += bytes_of(framework_.held_of_prediction, op, written.largest);
  }
  if (keeps(change)) buffers.kept = bytes_of(framework_.kept, op, written.largest);
  if (uses_global(op)) buffers.global = bytes_of(framework_.global_buffer, op, written.largest);
  buffers.ends_kept = kept_until_.contains(op.kind);
  if (has_gradient_tensor(op)) {
    std::int64_t const size = element_size(activation_type(plan_.config.model.precision));
    for (TensorId const id : op.writes) {
      Tensor const& tensor = block.tensor(id);
      if (tensor.category != Category::gradients) continue;
      buffers.gradients.push_back(tensor.shape.elements() * size);
    }
  }
  buffers.is_grouped = op.kind == OpKind::grouped_gemm && framework_.grouped_workspace > Bytes{0} &&
                       plan_.config.model.experts->grouped;
  buffers.has_any = buffers.is_grouped || buffers.temporary > 0 || buffers.held > 0 ||
                    buffers.kept > 0 || buffers.global > 0 || !buffers.gradients.empty() ||
                    buffers.ends_kept;
  buffers.is_launched =
      framework_.host_lead > 0 && traits_of(op.kind).op_class != OpClass::synchronisation;
  buffers.is_known = true;
  return buffers;
}

bool FrameworkBuffers::run(BufferEvent const& event) {
  OpBuffers const& buffers = buffers_of(*event.change);
  if (buffers.is_launched) launch();
  if (!buffers.has_any) return true;
  if (buffers.is_grouped && !has_grouped_workspace_) {
    has_grouped_workspace_ = true;
    if (!allocator_.keep(framework_.grouped_workspace.count())) return false;
  }
  if (!grow(global_, buffers.global)) return false;
  BlockId temporary = no_block;
  if (!allocator_.allocate(buffers.temporary, temporary)) return false;
  allocator_.free(temporary);
  if (!allocate_into(held_, buffers.held)) return false;
  if (buffers.kept > 0 &&
      !allocate_into(kept(ChunkId{event.change->chunk}, event.microbatch), buffers.kept)) {
    return false;
  }
  if (buffers.ends_kept) {
    Blocks& blocks = kept(ChunkId{event.change->chunk}, event.microbatch);
    if (!blocks.empty()) {
      allocator_.free(blocks.back());
      blocks.pop_back();
    }
  }
  bool const fits = std::ranges::all_of(
      buffers.gradients, [this](std::int64_t bytes) { return allocate_into(gradients_, bytes); });
  if (!framework_.separates_gradients) free_all(gradients_);
  return fits;
}

bool FrameworkBuffers::uses_global(Op const& op) const {
  if (!framework_.global_buffer.contains(op.kind)) return false;
  return op.kind != OpKind::all_gather ||
         (op.group == plan_.roles.tensor && op.phase != Phase::input_gradient);
}

/// Whether the op's gradients do not go into the main gradients at once.
bool FrameworkBuffers::has_gradient_tensor(Op const& op) const {
  if (framework_.separates_gradients) return true;
  bool const accumulates =
      op.kind == OpKind::gemm && gradient_type(plan_.config) == ElementType::f32;
  return framework_.passes_gradients && !accumulates;
}

bool FrameworkBuffers::keeps(BufferChange const& change) const {
  if (!framework_.kept.contains(change.op->kind)) return false;
  return change.op->phase == Phase::recompute || !recomputes(*change.block, change.op->kind);
}

bool FrameworkBuffers::replaces(BufferChange const& change) const {
  return change.op != nullptr && change.op->kind == OpKind::all_gather &&
         change.op->group == plan_.roles.tensor &&
         (framework_.keeps_gathered || uses_global(*change.op)) &&
         change.block->tensor(change.tensor).buffer ==
             change.block->tensor(*change.op->writes.begin()).buffer;
}

bool FrameworkBuffers::allocate_instead(BufferChange const& change) {
  if (uses_global(*change.op)) {
    return grow(global_, bytes_of(framework_.global_buffer, *change.op, change.bytes));
  }
  return grow(gathered_[gathered_index(*change.op)], change.bytes);
}

/// Makes a buffer that is never freed have at least `bytes`.
bool FrameworkBuffers::grow(Growing& buffer, std::int64_t bytes) {
  if (bytes <= buffer.bytes) return true;
  // The larger one is allocated before the smaller one is dropped.
  BlockId larger = no_block;
  if (!allocator_.allocate(bytes, larger)) return false;
  allocator_.free(buffer.block);
  buffer = {larger, bytes};
  return true;
}

void FrameworkBuffers::end(Task const& task, MicrobatchId microbatch) {
  free_all(held_);
  if (sends(task)) end_of_sending(task);
  bool const ends_pass = ends_forward(task) || ends_gradient(task) || ends_in_flight(task);
  if (framework_.waits_after_passes && ends_pass) wait_on_host();
  if (!ends_in_flight(task)) return;
  free_all(gradients_);
  free_all(kept(task.chunk, microbatch));
}

void FrameworkBuffers::end_of_sending(Task const& task) {
  constexpr int fewest_stages = 3;
  bool const is_first = iterations_ == 1 && task.kind == Task::Kind::forward;
  if (is_first && ++forwards_sent_ == 2) {
    stands_still_ = framework_.connects_late && plan_.config.parallel.pipeline >= fewest_stages;
  }
  if (framework_.waits_after_sends) wait_on_host();
}

void FrameworkBuffers::begin_iteration() {
  ++iterations_;
  free_all(widened_);
  free_all(root_);
}

bool FrameworkBuffers::begin_step(std::span<std::int64_t const> shards) {
  if (framework_.host_lead > 0) wait_on_host();
  if (!framework_.widens_gradients || shards.empty()) return true;
  std::int64_t const wide = element_size(ElementType::f32);
  bool const is_narrow = element_size(gradient_type(plan_.config)) < wide;
  bool const needs_wide = stage_.state_of(step_tensor::first_moment).type == ElementType::f32;
  if (!is_narrow || !needs_wide) return true;
  return std::ranges::all_of(
      shards, [this](std::int64_t elements) { return allocate_into(widened_, elements * wide); });
}

bool FrameworkBuffers::step(std::span<std::int64_t const> shards) {
  return update(shards) && gather(shards);
}

/// Allocates what the optimizer's kernels need.
bool FrameworkBuffers::update(std::span<std::int64_t const> shards) {
  if (!framework_.has_foreach_step || shards.empty()) return true;
  std::int64_t const size = element_size(stage_.state_of(step_tensor::second_moment).type);
  Blocks roots;
  bool const fits = std::ranges::all_of(
      shards, [&](std::int64_t elements) { return allocate_into(roots, elements * size); });
  free_all(roots);
  return fits;
}

/// Allocates the copies through which updated parameters are gathered.
bool FrameworkBuffers::gather(std::span<std::int64_t const> shards) {
  if (!framework_.copies_gathered_parameters || stage_.shards == 1) return true;
  std::int64_t elements = 0;
  for (std::int64_t const shard : shards) elements += shard;
  std::int64_t const bytes = elements * element_size(activation_type(plan_.config.model.precision));
  // One copy of the own shard, one of each replica's shard, and NCCL's output for all of them.
  Blocks copies;
  bool fits = allocate_into(copies, bytes);
  for (int i = 0; fits && i < stage_.shards; ++i) fits = allocate_into(copies, bytes);
  fits = fits && allocate_into(copies, bytes * stage_.shards);
  free_all(copies);
  return fits;
}

bool FrameworkBuffers::end_iteration() {
  free_all(held_);
  free_all(gradients_);
  for (Blocks& blocks : kept_) free_all(blocks);
  return keep_root() && (!framework_.keeps_inputs || keep_inputs());
}

/// Allocates a buffer of the parameters outside layers.
bool FrameworkBuffers::keep_root() {
  Sharding const& sharding = plan_.config.sharding;
  if (!framework_.keeps_root || !sharding.shares_parameters() || !sharding.keeps_root()) {
    return true;
  }
  UnitTraits const traits = unit_traits(plan_);
  std::int64_t elements = 0;
  std::int32_t counted = -1;  // the block before; units have one chunk
  for (PlacedParameter const& placed : parameter_layout(plan_, stage_)) {
    if (placed.layer >= 0 || placed.block == counted) continue;
    counted = placed.block;
    ChunkProgram const& chunk = plan_.programs.chunks[static_cast<std::size_t>(placed.chunk)];
    std::int32_t const block = chunk.blocks[static_cast<std::size_t>(placed.block)];
    elements += elements_of(plan_.programs.blocks[static_cast<std::size_t>(block)], traits);
  }
  return allocate_into(root_, elements * element_size(unit_types(plan_.config).gathered));
}

/// Allocates an activation and its gradient for each chunk that has received one.
bool FrameworkBuffers::keep_inputs() {
  std::int64_t const bytes = message_buffer_bytes(plan_, MessageBuffer::whole).count();
  return std::ranges::all_of(stage_.tasks, [&](Task const& task) {
    Blocks& blocks = inputs_[task.chunk.index()];
    bool const is_kept = task.kind == Task::Kind::forward && blocks.empty() && receives(task);
    return !is_kept || (allocate_into(blocks, bytes) && allocate_into(blocks, bytes));
  });
}

bool FrameworkBuffers::allocate_into(Blocks& blocks, std::int64_t bytes) {
  if (bytes == 0) return true;
  blocks.push_back(no_block);
  return allocator_.allocate(bytes, blocks.back());
}

void FrameworkBuffers::free_all(Blocks& blocks) {
  for (BlockId& block : blocks) allocator_.free(block);
  blocks.clear();
}

FrameworkBuffers::Blocks& FrameworkBuffers::kept(ChunkId chunk, MicrobatchId microbatch) {
  return kept_[chunk.index() * static_cast<std::size_t>(microbatches(plan_.config)) +
               microbatch.index()];
}

}  // namespace stagecraft
