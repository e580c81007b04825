#include "libexec/executor/block_runner.hpp"

#include <algorithm>
#include <array>
#include <map>
#include <numeric>
#include <span>
#include <stdexcept>
#include <string>

#include "libexec/backends/numbers.hpp"
#include "libexec/executor/rank_context.hpp"
#include "libexec/executor/unit_layout.hpp"
#include "libexec/kernels/operands/operand_checks.hpp"
#include "libsim/plan/units/unit_block.hpp"

namespace stagecraft {
namespace {

/// The number of elements that host memory holds at a time, independent of the model's sizes.
constexpr std::int64_t piece_elements = 1024;

/// Whether op i is a product to which the next op adds a bias.
bool is_product_with_bias(std::vector<Op> const& ops, std::size_t i) {
  return ops[i].kind == OpKind::gemm && i + 1 < ops.size() && ops[i + 1].kind == OpKind::bias_add &&
         ops[i + 1].reads[0] == ops[i].writes[0];
}

/// The number of rows for which the plan has room in the tensor whose row counts are `counts`; 0 if
/// no tensor depends on them.
std::int64_t most_counted(BlockProgram const& block, TensorId counts) {
  for (Pass const pass : {Pass::forward, Pass::backward}) {
    for (Op const& op : block.ops(pass)) {
      bool const moves = op.kind == OpKind::all_to_all || op.kind == OpKind::all_gather;
      if (!moves || op.reads.size() == 1 || op.reads[op.reads.size() - 1] != counts) continue;
      return block.tensor(op.writes[0]).shape[0];
    }
  }
  return 0;
}

/// Whether a tensor is the gradient of a parameter of a sharded unit, which kernels that add would
/// find uninitialized.
bool is_unit_gradient(BlockProgram const& block, TensorId id) {
  return block.tensor(id).category == Category::gathered &&
         std::ranges::find(block.parameters, id, &Parameter::gradient) != block.parameters.end();
}

/// Whether an op moves what sharded units gather or reduce, or adds it up.
bool is_of_unit(Op const& op) { return op.module == unit_names::module; }

/// The parameters whose gradients the ops before op i read that have the same name.
std::size_t read_before(std::vector<Op> const& ops, std::size_t i) {
  std::size_t count = 0;
  for (std::size_t k = 0; k < i; ++k) {
    if (ops[k].name == ops[i].name) count += ops[k].kind == OpKind::add ? 1 : ops[k].reads.size();
  }
  return count;
}

}  // namespace

BlockRunner::BlockRunner(RankContext const& context, ParameterStore const& parameters)
    : context_{context}, parameters_{parameters}, ops_{context} {
  for (BlockProgram const& block : context.programs.blocks) buffers_.emplace_back(block);
}

BlockProgram const& BlockRunner::block_of(BlockInstance const& instance) const {
  auto const program = static_cast<std::size_t>(instance.chunk_program);
  auto const index = context_.programs.chunks[program].blocks[instance.position];
  return context_.programs.blocks[static_cast<std::size_t>(index)];
}

BlockInstance BlockRunner::make_instance(std::int32_t chunk_program,
                                         std::size_t position,
                                         MicrobatchId microbatch) const {
  ChunkProgram const& chunk = context_.programs.chunks[static_cast<std::size_t>(chunk_program)];
  BlockInstance instance;
  instance.chunk_program = chunk_program;
  instance.position = position;
  instance.microbatch = microbatch;
  instance.chunk = chunk.chunk.value();
  instance.first_layer = first_layer_of(context_.programs, chunk, position);
  instance.buffers.resize(block_of(instance).tensors.size());
  return instance;
}

void BlockRunner::run(BlockInstance& instance, Pass pass) {
  BlockProgram const& block = block_of(instance);
  auto const index = static_cast<std::size_t>(&block - context_.programs.blocks.data());
  PassBuffers const& buffers = buffers_[index].of(pass);
  std::vector<Op> const& ops = block.ops(pass);
  Finished finished{};
  bool has_bias = false;  // whether the product before op i has already added it
  for (std::size_t i = 0; i < ops.size(); ++i) {
    if (context_.recorder != nullptr) context_.recorder->begin_change();
    for (BufferMove const& move : buffers.before(i)) {
      allocate(instance, ops[i], move.buffer);
    }
    if (context_.recorder != nullptr) context_.recorder->end_change();
    if (context_.lifetimes != nullptr) note_uses(instance, ops, i, finished);
    if (has_bias) {
      ops_.record_now(ops[i], place_of(instance, ops[i]));
      has_bias = false;
    } else if (is_product_with_bias(ops, i)) {
      has_bias = launch_with_bias(instance, ops[i], ops[i + 1]);
    } else {
      run(instance, ops, i);
    }
    if (context_.recorder != nullptr) context_.recorder->begin_change();
    for (BufferMove const& move : buffers.after(i)) {
      release(instance, ops[i], move.buffer);
    }
    if (context_.recorder != nullptr) context_.recorder->end_change();
  }
}

void BlockRunner::allocate(BlockInstance& instance, Op const& op, TensorId id) {
  Tensor const& tensor = block_of(instance).tensor(id);
  BufferLabel const label{.name = tensor.name,
                          .layer = place_of(instance, op).layer,
                          .microbatch = instance.microbatch};
  try {
    instance.buffers[static_cast<std::size_t>(id)] =
        is_quantised(tensor.type)
            ? context_.allocator.allocate(label, tensor.category, ElementType::u8,
                                          {tensor.bytes().count()})
            : context_.allocator.allocate(label, tensor.category, tensor.type, tensor.shape);
    bool const writes_all =
        op.kind == OpKind::zero_fill || std::holds_alternative<GemmAttributes>(op.attributes);
    if (!writes_all && is_unit_gradient(block_of(instance), id)) {
      Operand const all = operand(instance, id);
      fill_zero(context_.backend, {all.data, all.type, all.shape.elements()});
    }
  } catch (MemoryLimitError const& error) {
    throw MemoryLimitError{"before " + to_string(op.name) + ": " + error.what()};
  }
}

void BlockRunner::note_uses(BlockInstance const& instance,
                            std::vector<Op> const& ops,
                            std::size_t i,
                            Finished& finished) const {
  context_.lifetimes->begin_op();
  note_use(instance, ops[i]);
  if (ops[i].kind != OpKind::wait) return;
  // Collectives use their operands until somebody waits for them, or for a later one of their
  // stream.
  auto const last = static_cast<std::size_t>(ops[i].waits_for);
  Stream const stream = ops[last].stream;
  for (std::size_t& next = finished[static_cast<std::size_t>(stream)]; next <= last; ++next) {
    Op const& op = ops[next];
    if (op.stream == stream && is_collective(op.kind)) note_use(instance, op);
  }
}

void BlockRunner::note_use(BlockInstance const& instance, Op const& op) const {
  for (auto const* operands : {&op.reads, &op.writes}) {
    for (TensorId const id : *operands) context_.lifetimes->note_use(operand(instance, id).data);
  }
}

void BlockRunner::release(BlockInstance& instance, Op const& op, TensorId id) {
  Buffer& buffer = instance.buffers[static_cast<std::size_t>(id)];
  if (context_.lifetimes != nullptr && buffer) {
    BufferLabel const label{.name = block_of(instance).tensor(id).name,
                            .layer = place_of(instance, op).layer,
                            .microbatch = instance.microbatch};
    context_.lifetimes->release(buffer, label, to_string(op.name));
  }
  buffer = Buffer{};
}

void BlockRunner::run(BlockInstance& instance, std::vector<Op> const& ops, std::size_t i) {
  Op const& op = ops[i];
  forget_counts(instance, op);
  if (is_collective(op.kind)) {
    start_collective(instance, op, static_cast<std::int32_t>(i));
    return;
  }
  if (is_of_unit(op) && op.kind != OpKind::wait && op.kind != OpKind::hold) {
    move_unit(instance, op, read_before(ops, i));
    return;
  }
  switch (op.kind) {
    case OpKind::wait:
      wait(instance, op);
      return;
    case OpKind::hold:
      ops_.record_now(op, place_of(instance, op));
      return;
    case OpKind::load_tokens:
    case OpKind::load_labels:
      load(instance, op);
      return;
    default:
      launch(instance, op);
      if (op.kind == OpKind::cross_entropy) take_loss(instance, op);
      if (op.kind == OpKind::router_loss && op.phase != Phase::recompute) {
        router_losses_.push_back(sum_of(operand(instance, op.writes[0])));
      }
  }
}

bool BlockRunner::launch_with_bias(BlockInstance& instance, Op const& op, Op const& bias_add) {
  KernelCall const call = call_of(instance, op);
  KernelCall with_bias = call;
  with_bias.reads.push_back(operand(instance, bias_add.reads[1]));
  bool const adds_bias =
      context_.clock.aside([&] { return context_.backend.adds_bias(with_bias); });
  launch(instance, op, adds_bias ? with_bias : call);
  return adds_bias;
}

void BlockRunner::launch(BlockInstance& instance, Op const& op) {
  launch(instance, op, call_of(instance, op));
}

void BlockRunner::launch(BlockInstance const& instance, Op const& op, KernelCall const& call) {
  ops_.compute(op, place_of(instance, op), [&] { context_.backend.run(call); });
  if (context_.on_op != nullptr) (*context_.on_op)(context_, op, call);
}

void BlockRunner::move_unit(BlockInstance& instance, Op const& op, std::size_t first) {
  KernelCall whole = call_of(instance, op);
  if (op.stream == Stream::gather) whole.writes[0] = own_part(whole.writes[0], op);
  int const ranks = context_.plan.groups.members(context_.plan.roles.unit.value());
  UnitLayout const layout{block_of(instance), ranks};
  ops_.compute(op, place_of(instance, op), [&] {
    for (KernelCall const& call : layout.pieces(whole, first)) context_.backend.run(call);
  });
}

Operand BlockRunner::own_part(Operand part, Op const& op) const {
  auto const group = context_.plan.groups.membership(op.group.value(), context_.rank);
  part.data = static_cast<std::byte*>(part.data) +
              group.value().member * part.shape.elements() * element_size(part.type);
  return part;
}

std::vector<std::int32_t> const& BlockRunner::counts_of(BlockInstance& instance,
                                                        TensorId counts) const {
  auto const [known, is_new] = instance.counts.try_emplace(counts);
  if (is_new) {
    Operand const values = operand(instance, counts);
    known->second.resize(static_cast<std::size_t>(values.shape.elements()));
    context_.backend.read(known->second.data(), values.data,
                          known->second.size() * sizeof(std::int32_t));
  }
  return known->second;
}

void BlockRunner::forget_counts(BlockInstance& instance, Op const& op) const {
  if (instance.counts.empty()) return;
  BlockProgram const& block = block_of(instance);
  for (TensorId const written : op.writes) {
    std::erase_if(instance.counts, [&](auto const& known) {
      return block.tensor(known.first).buffer == block.tensor(written).buffer;
    });
  }
}

std::vector<std::int64_t> BlockRunner::sizes_of_pieces(BlockInstance& instance,
                                                       Op const& op) const {
  std::vector<std::int64_t> sizes;
  if (op.reads.size() == 1) return sizes;
  std::int64_t const members = context_.plan.groups.members(op.group.value());
  Operand const source = operand(instance, op.reads[0]);
  Operand const target = operand(instance, op.writes[0]);
  std::int64_t const width = source.shape.rank() == 1 ? 1 : source.shape[1];
  for (std::size_t i = 1; i < op.reads.size(); ++i) {
    std::vector<std::int32_t> const& values = counts_of(instance, op.reads[i]);
    auto const each = static_cast<std::ptrdiff_t>(values.size()) / members;
    std::int64_t sum = 0;
    for (auto first = values.begin(); first != values.end(); first += each) {
      sizes.push_back(width * std::accumulate(first, first + each, std::int64_t{0}));
      sum += sizes.back();
    }
    // What is sent is in the source, and what arrives in the target; a whole in the larger one.
    bool const is_exchange = op.kind == OpKind::all_to_all;
    std::int64_t const room = is_exchange
                                  ? (i == 1 ? source : target).shape.elements()
                                  : std::max(source.shape.elements(), target.shape.elements());
    if (sum > room) {
      throw std::logic_error{to_string(op.name) +
                             ": there are more rows than the plan has room "
                             "for"};
    }
  }
  return sizes;
}

std::vector<Collective> BlockRunner::quantised_parts(Collective const& whole,
                                                     Operand const& part,
                                                     Operand const& gathered) const {
  auto const bytes = [&](std::int64_t first_of_part, std::int64_t first_of_whole,
                         std::int64_t of_part, std::int64_t of_whole) {
    Collective collective = whole;
    collective.type = ElementType::u8;
    collective.source = static_cast<std::byte*>(part.data) + first_of_part;
    collective.target = static_cast<std::byte*>(gathered.data) + first_of_whole;
    collective.elements = of_whole;
    collective.piece = of_part;
    return collective;
  };
  std::int64_t const of_part = bytes_of(part.shape.elements(), part.type).count();
  std::int64_t const of_whole = bytes_of(gathered.shape.elements(), gathered.type).count();
  std::vector<Collective> parts{bytes(0, 0, of_part, of_whole)};
  if (part.scales.bytes == gathered.scales.bytes) {
    // One scale, on which the members have agreed.
    std::vector<std::byte> scale(static_cast<std::size_t>(part.scales.bytes));
    context_.backend.read(scale.data(), static_cast<std::byte*>(part.data) + of_part, scale.size());
    context_.backend.write(static_cast<std::byte*>(gathered.data) + of_whole, scale.data(),
                           scale.size());
  } else {
    parts.push_back(bytes(of_part, of_whole, part.scales.bytes, gathered.scales.bytes));
  }
  return parts;
}

void BlockRunner::start_collective(BlockInstance& instance, Op const& op, std::int32_t position) {
  Operand source = operand(instance, op.reads[0]);
  Operand const target = operand(instance, op.writes[0]);
  if (is_of_unit(op) && op.kind == OpKind::all_gather) source = own_part(source, op);
  std::int64_t const members = context_.plan.groups.members(op.group.value());
  std::int64_t const elements = std::max(source.shape.elements(), target.shape.elements());
  auto const* const shift = std::get_if<ShiftAttributes>(&op.attributes);
  Collective collective{.type = source.type,
                        .source = source.data,
                        .target = target.data,
                        .elements = elements,
                        .piece = (elements + members - 1) / members,
                        .shift = shift != nullptr ? shift->by : 1};
  if (is_quantised(source.type)) {
    ops_.start(op, place_of(instance, op), quantised_parts(collective, source, target), position);
    return;
  }
  std::vector<std::int64_t> sizes = sizes_of_pieces(instance, op);
  if (source.type == ElementType::i32) {
    collective.most_rows = most_counted(block_of(instance), op.writes[0]);
  }
  if (!sizes.empty()) {
    collective.piece = 0;
    if (op.kind == OpKind::all_to_all) {
      // Members know their own sizes alone.
      collective.elements = 0;
      collective.sent = sizes.data();
      collective.received = sizes.data() + members;
    } else {
      collective.pieces = sizes.data();
    }
  }
  ops_.start(op, place_of(instance, op), {collective}, position, std::move(sizes));
}

void BlockRunner::wait(BlockInstance const& instance, Op const& op) {
  TimeSpan const begin = context_.clock.instant();
  ops_.finish(op.waits_for);
  context_.record(op, place_of(instance, op), joined(begin, context_.clock.instant()));
}

void BlockRunner::load(BlockInstance const& instance, Op const& op) {
  Operand const tokens = operand(instance, op.writes[0]);
  std::int64_t const rows = tokens.shape[0];
  std::int64_t const b = tokens.shape[1];
  SequencePart const part = sequence_part(context_.plan, context_.place);
  // Rows follow each other in the sequence within a chunk.
  std::int64_t const chunk = part.zigzag ? rows / 2 : rows;
  std::int64_t const ahead =
      (op.kind == OpKind::load_labels ? 1 : 0) + std::get<TokensAttributes>(op.attributes).ahead;
  std::int64_t const sequence =
      context_.state.step * context_.plan.config.batch.global +
      context_.in_batch(instance.microbatch).value() * context_.plan.config.batch.micro;
  auto* const device = static_cast<std::byte*>(tokens.data);
  ops_.compute(op, place_of(instance, op), [&] {
    std::array<std::int64_t, piece_elements> column{};
    std::array<std::int64_t, piece_elements> ids{};
    std::int64_t const rows_per_piece = std::max<std::int64_t>(1, piece_elements / b);
    for (std::int64_t row = 0, count = 0; row < rows; row += count) {
      count = std::min({rows_per_piece, rows - row, chunk - row % chunk});
      for (std::int64_t first = 0; first < b; first += piece_elements) {
        std::int64_t const sequences = std::min<std::int64_t>(piece_elements, b - first);
        for (std::int64_t j = 0; j < sequences; ++j) {
          context_.tokens.read(sequence + first + j, part.row_of(row, rows) + ahead,
                               {column.data(), static_cast<std::size_t>(count)});
          for (std::int64_t i = 0; i < count; ++i) {
            ids[static_cast<std::size_t>(i * sequences + j)] = column[static_cast<std::size_t>(i)];
          }
        }
        context_.backend.write(device + (row * b + first) * element_size(tokens.type), ids.data(),
                               static_cast<std::size_t>(count * sequences) * sizeof ids[0]);
      }
    }
  });
}

void BlockRunner::take_loss(BlockInstance const& instance, Op const& op) {
  double const sum = sum_of(operand(instance, op.writes[1]));
  double const weight = std::get<VocabularyAttributes>(op.attributes).weight;
  if (op.layer == 0) {
    losses_[instance.microbatch] = sum;
  } else {
    prediction_losses_.push_back(weight * sum);
  }
}

double BlockRunner::sum_of(Operand const& losses) const {
  std::int64_t const elements = losses.shape.elements();
  auto const* const device = static_cast<std::byte const*>(losses.data);
  std::array<std::byte, piece_elements * sizeof(double)> bytes{};
  double sum = 0;
  for (std::int64_t first = 0; first < elements; first += piece_elements) {
    std::int64_t const count = std::min<std::int64_t>(piece_elements, elements - first);
    auto const size = static_cast<std::size_t>(count * element_size(losses.type));
    context_.backend.read(bytes.data(), device + first * element_size(losses.type), size);
    for (double const loss : decode(std::span{bytes}.first(size), losses.type)) sum += loss;
  }
  return sum;
}

Operand BlockRunner::operand(BlockInstance const& instance, TensorId id) const {
  BlockProgram const& block = block_of(instance);
  Tensor const& tensor = block.tensor(id);
  Operand operand{.type = tensor.type,
                  .shape = tensor.shape,
                  .strides = tensor.strides,
                  .scales = tensor.scales};
  if (block.tensor(tensor.buffer).lifetime == Lifetime::job) {
    operand.data = parameters_.data_of(instance.chunk_program, instance.position, tensor.buffer);
    return operand;
  }
  Buffer const& buffer = instance.buffers[static_cast<std::size_t>(tensor.buffer)];
  if (!buffer) {
    throw std::logic_error{to_string(tensor.name) + " is used while it has no buffer"};
  }
  operand.data = buffer.data();
  if (tensor.offset != 0) {
    operand.data = buffer.data() + tensor.offset * element_size(tensor.type);
  }
  // A parameter within its unit is not a view to kernels.
  if (tensor.category == Category::gathered && is_contiguous(operand)) operand.strides = {};
  return operand;
}

KernelCall BlockRunner::call_of(BlockInstance& instance, Op const& op) const {
  KernelCall call;
  call.kind = op.kind;
  call.name = op.name;
  call.attributes = op.attributes;
  for (TensorId const id : op.reads) call.reads.push_back(operand(instance, id));
  for (TensorId const id : op.writes) call.writes.push_back(operand(instance, id));
  if (op.kind == OpKind::grouped_gemm && op.reads.size() > 2) {
    call.counts = counts_of(instance, op.reads[2]);
  }
  DropoutAttributes const* const dropout = dropout_of(op.attributes);
  std::int64_t const layer = place_of(instance, op).layer;
  call.draw = {
      .seed = static_cast<std::uint32_t>(context_.plan.config.training.seed),
      .step = static_cast<std::uint32_t>(context_.state.step),
      .microbatch = static_cast<std::uint32_t>(context_.in_batch(instance.microbatch).value()),
      .layer = static_cast<std::uint32_t>(std::max<std::int64_t>(layer, 0)),
      .site = dropout != nullptr ? dropout->site : DropoutSite::embedding};
  if (op.kind == OpKind::cross_entropy_backward) {
    // This is the mean over the tokens of a replica, of all its context ranks; replicas are
    // averaged before their reduction, unless units reduce.
    double const tokens = static_cast<double>(context_.plan.config.model.sequence *
                                              context_.plan.config.batch.micro * batches_of_loss());
    call.loss_gradient =
        context_.state.loss_scale / tokens * std::get<VocabularyAttributes>(op.attributes).weight;
  }
  if (op.kind == OpKind::router_loss_backward) {
    // The mean over the microbatches of a replica, whose ranks have parts of each one's loss.
    call.loss_gradient = context_.state.loss_scale / static_cast<double>(batches_of_loss());
  }
  return call;
}

std::int64_t BlockRunner::batches_of_loss() const {
  TrainingConfig const& config = context_.plan.config;
  return microbatches(config) * (config.sharding.has_units() ? config.parallel.data : 1);
}

OpPlace BlockRunner::place_of(BlockInstance const& instance, Op const& op) const {
  return {.layer = layer_of(block_of(instance).kind, instance.first_layer, op.layer),
          .microbatch = instance.microbatch,
          .chunk = instance.chunk};
}

}  // namespace stagecraft
