#include "libsim/plan/fingerprint.hpp"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "libsim/host/sha256.hpp"
#include "libsim/plan/order_digest.hpp"
#include "libsim/plan/text_pieces.hpp"

namespace stagecraft {
namespace {

void write(TextPieces& out, Shape const& shape) {
  for (int i = 0; i < shape.rank(); ++i) out << (i == 0 ? "[" : ",") << shape[i];
  out << "]";
}

void write(TextPieces& out, TensorList const& ids) {
  for (TensorId const id : ids) out << " " << id;
}

void write(TextPieces& out, Tensor const& tensor) {
  out << "tensor " << to_string(tensor.name) << " layer " << tensor.layer
      << (tensor.rebuilt ? " rebuilt " : " ") << name_of(tensor.type) << " "
      << name_of(tensor.category) << " ";
  write(out, tensor.shape);
  out << " buffer " << tensor.buffer << " + " << tensor.offset << " ";
  write(out, tensor.strides);
  if (tensor.scales.bytes > 0) out << " scales " << tensor.scales.bytes;
  out << "\n";
}

void write(TextPieces& /*out*/, NoAttributes const& /*none*/) {}

void write(TextPieces& out, GemmAttributes const& gemm) {
  GemmShape const& shape = gemm.shape;
  out << " gemm " << shape.batch << "x" << shape.m << "x" << shape.n << "x" << shape.k
      << (shape.transpose_a ? "T" : "N") << (shape.transpose_b ? "T" : "N")
      << (shape.accumulate ? "+" : "=") << name_of(gemm.output);
  if (gemm.scaling != Scaling::none) out << " scaling " << static_cast<int>(gemm.scaling);
}

void write(TextPieces& out, QuantiseAttributes const& quantise) {
  out << " recipe " << name_of(quantise.recipe);
}

void write(TextPieces& out, NormAttributes const& norm) {
  out << " norm " << static_cast<int>(norm.norm) << " epsilon " << norm.epsilon;
}

void write(TextPieces& out, HeadsNormAttributes const& norm) {
  out << " norm of heads epsilon " << norm.epsilon << (norm.across_heads ? " across" : "");
}

void write(TextPieces& out, DropoutAttributes const& dropout) {
  out << " dropout " << dropout.rate << " site " << static_cast<int>(dropout.site) << " shards "
      << dropout.shards;
}

void write(TextPieces& out, SoftmaxAttributes const& softmax) {
  out << " scale " << softmax.scale;
  write(out, softmax.dropout);
  if (softmax.window > 0) out << " window " << softmax.window;
}

void write(TextPieces& out, FlashAttributes const& flash) {
  out << " scale " << flash.scale;
  write(out, flash.dropout);
  if (flash.window > 0) out << " window " << flash.window;
  if (flash.softcap > 0) out << " softcap " << flash.softcap;
  if (flash.is_low) out << " in 8 bits";
  AttentionPart const& part = flash.part;
  if (part.kind == AttentionPart::Kind::whole) return;
  out << " part " << static_cast<int>(part.kind) << "." << part.index << " of " << part.stride;
}

void write(TextPieces& out, ShiftAttributes const& shift) { out << " by " << shift.by; }

// It changes no tensor.
void write(TextPieces& /*out*/, ExchangeAttributes const& /*exchange*/) {}

void write(TextPieces& out, RowOrderAttributes const& order) {
  out << " rows of " << order.ranks << (order.to_sequence ? " in order" : " in zigzag");
}

void write(TextPieces& out, SoftcapAttributes const& softcap) {
  out << " softcap " << softcap.cap << " scale " << softcap.scale;
}

void write(TextPieces& out, RotaryAttributes const& rotary) { out << " rotary " << rotary.base; }

void write(TextPieces& out, VocabularyAttributes const& vocabulary) {
  out << " vocabulary " << vocabulary.words;
  if (vocabulary.weight != 1) out << " weight " << vocabulary.weight;
}

void write(TextPieces& out, TokensAttributes const& tokens) {
  if (tokens.ahead > 0) out << " ahead " << tokens.ahead;
}

void write(TextPieces& out, ActivationAttributes const& activation) {
  out << " activation " << static_cast<int>(activation.activation);
}

void write(TextPieces& out, RoutingAttributes const& routing) {
  out << " routing " << static_cast<int>(routing.score) << " " << static_cast<int>(routing.order)
      << (routing.normalise ? " normalised" : "") << " scaling " << routing.scaling << " of "
      << routing.per_token;
  if (routing.forced != nullptr) out << " forced";
  if (!routing.is_by_router()) return;
  out << " rows " << routing.expert_rows << " groups " << routing.groups_per_token << "/"
      << routing.groups << (routing.pads ? "" : " not padded")
      << (routing.drop == DropBy::position ? " by position" : "");
}

void write(TextPieces& out, RouterLossAttributes const& loss) {
  out << " loss of " << static_cast<int>(loss.score) << " choices " << loss.per_token << " of "
      << loss.sequences << "/" << loss.tokens << " balance " << loss.balance << " size "
      << loss.size;
  if (loss.replicas > 1) out << " replicas " << loss.replicas;
}

void write(TextPieces& out, RowScaleAttributes const& scale) {
  out << " factor " << static_cast<int>(scale.factor);
}

void write(TextPieces& out, GroupsAttributes const& all) { out << " groups " << all.groups; }

void write(TextPieces& out, ChunkAttributes const& chunks) {
  out << " chunks " << chunks.outer << "x" << chunks.inner << (chunks.by_inner ? " by inner" : "");
}

void write(TextPieces& out, ScaleAttributes const& scale) { out << " scale " << scale.factor; }

// Hyperparameters change neither memory nor time, so plans that differ in them are the same.
void write(TextPieces& /*out*/, ClipAttributes const& /*clip*/) {}
void write(TextPieces& /*out*/, AdamAttributes const& /*adam*/) {}
void write(TextPieces& /*out*/, AdamAheadAttributes const& /*ahead*/) {}

void write(TextPieces& out, Op const& op) {
  out << "op " << name_of(op.kind) << " " << to_string(op.name) << " " << name_of(op.phase) << " "
      << name_of(op.stream) << " layer " << op.layer << " reads";
  write(out, op.reads);
  out << " writes";
  write(out, op.writes);
  std::visit([&](auto const& attributes) { write(out, attributes); }, op.attributes);
  if (op.group) out << " group " << op.group->value() << " payload " << op.payload.count();
  out << " waits " << op.waits_for << (op.asynchronous ? " asynchronous" : "")
      << (op.is_ahead ? " ahead" : "") << (op.draws_random ? " random" : "") << "\n";
}

void write(TextPieces& out, BlockProgram const& block) {
  out << "block " << static_cast<int>(block.kind) << " layers " << block.layers << " input "
      << block.input << " output " << block.output << " gradients " << block.grad_output << " "
      << block.grad_input << "\n";
  for (Tensor const& tensor : block.tensors) write(out, tensor);
  for (Handover const& handover : block.handovers) {
    out << "handover " << index_of(handover.pass) << " " << handover.what << " of "
        << handover.position << " " << handover.taken << " " << handover.left << " "
        << handover.lent << "\n";
  }
  out << "forward\n";
  for (Op const& op : block.forward) write(out, op);
  out << "backward\n";
  for (Op const& op : block.backward) write(out, op);
  if (!block.recompute.empty()) out << "recompute\n";
  for (Op const& op : block.recompute) write(out, op);
  if (block.input_gradient.empty() && block.weight_gradient.empty()) return;
  out << "input gradient\n";
  for (Op const& op : block.input_gradient) write(out, op);
  out << "weight gradient\n";
  for (Op const& op : block.weight_gradient) write(out, op);
}

void write(TextPieces& out, ChunkProgram const& chunk) {
  out << "chunk " << chunk.stage.value() << "." << chunk.chunk.value() << " layers "
      << chunk.first_layer << "+" << chunk.layers << " blocks";
  for (std::int32_t const block : chunk.blocks) out << " " << block;
  out << "\n";
}

void write(TextPieces& out, SharedRanges const& ranges) {
  for (ParameterRange const& range : ranges) {
    out << " " << range.first << "+" << range.count << (range.decays ? " decays" : "");
    for (AxisShare const& share : range.shares) out << " " << share.axis << "/" << share.replicas;
  }
}

/// The texts of long ranges, most of which several stages share.
class RangeTexts {
 public:
  std::string const& of(SharedRanges const& ranges) {
    auto const known =
        std::ranges::find_if(known_, [&](Known const& other) { return other.ranges.is(ranges); });
    if (known != known_.end()) return known->text;
    write(pieces_, ranges);
    pieces_.hand_on();
    known_.push_back({ranges, std::exchange(text_, {})});
    return known_.back().text;
  }

 private:
  struct Known {
    SharedRanges ranges;
    std::string text;
  };
  std::string text_;
  TextPieces pieces_{[this](std::string_view piece) { text_.append(piece); }};
  std::vector<Known> known_;
};

void write(TextPieces& out, StepOp const& op, RangeTexts& texts) {
  constexpr std::size_t longest_written = 8;
  write(out, static_cast<Op const&>(op));
  out << (op.own_shard ? "own" : "whole");
  if (op.part) out << " " << op.part->first << "+" << op.part->count << " of";
  if (op.ranges.size() > longest_written) {
    out << std::string_view{texts.of(op.ranges)};
  } else {
    write(out, op.ranges);
  }
  out << "\n";
}

void write(TextPieces& out, StagePlan const& rank, RangeTexts& texts) {
  out << "rank " << rank.stage.value() << " parameters " << rank.parameters << " optimizer "
      << rank.state_bytes(Category::optimizer).count();
  if (rank.host_bytes() > Bytes{0}) out << " host " << rank.host_bytes().count();
  out << " shards " << rank.shards << " of";
  for (ShardedRun const& run : rank.sharded_runs) {
    out << " " << run.first << "+" << run.count;
    if (run.shards != rank.shards) out << "/" << run.shards;
  }
  out << "\n";
  for (StepOp const& op : rank.step_ops) write(out, op, texts);
  for (Task const& task : rank.tasks) {
    out << "work " << static_cast<int>(task.kind) << " " << name_of(task.stream) << " "
        << (task.group ? task.group->value() : -1) << " " << task.program << " " << task.first_block
        << "+" << task.block_count << " " << task.op;
    if (task.beside >= 0) out << " beside " << task.beside;
    out << "\n";
  }
  out << "order " << order_digest(rank.program) << "\n";
}

void write(TextPieces& out, RankGroups const& groups) {
  for (RankGrid const& grid : groups.grids()) {
    out << "ranks";
    for (GridAxis const& axis : grid.axes()) out << " " << axis.name << " " << axis.size;
    out << "\n";
  }
  for (GroupId const id : groups.ids()) {
    out << "group " << id.value() << " grid " << groups[id].grid.value();
    for (GroupLevel const& level : groups[id].levels) {
      out << " level";
      for (AxisSelection const& selection : level) {
        out << " axis " << selection.axis.value() << " runs of " << selection.run;
        for (int const position : selection.positions) out << " " << position;
      }
    }
    out << "\n";
  }
}

void write(TextPieces& out, ForcedRouting const& forced) {
  for (ForcedCounts const& counts : forced.counts()) {
    out << "counts of " << counts.tokens() << " tokens:";
    for (std::int64_t expert = 0; expert < counts.experts(); ++expert) {
      out << " " << counts.rows(expert);
    }
    out << "\n";
  }
  for (auto const& [key, number] : forced.numbers()) {
    out << "layer " << key.first << " microbatch " << key.second.value() << " counts " << number
        << "\n";
  }
}

void write(TextPieces& out, TrainingPlan const& plan) {
  TrainingConfig const& config = plan.config;
  // Facts that the programs do not contain.
  out << "stagecraft plan 5\n"
      << "p2p " << static_cast<int>(config.schedule.p2p) << " scatter " << plan.scatters_messages()
      << " deallocation " << config.memory.output_deallocation << " message "
      << plan.message_bytes().count() << "\n";
  if (config.dispatch == Dispatch::deepep) out << "dispatch deepep\n";
  if (config.tf32) out << "tf32\n";
  if (plan.forced) write(out, *plan.forced);
  write(out, plan.groups);
  for (BlockProgram const& block : plan.programs.blocks) write(out, block);
  for (ChunkProgram const& chunk : plan.programs.chunks) write(out, chunk);
  RangeTexts texts;
  for (StagePlan const& rank : plan.stages) write(out, rank, texts);
}

}  // namespace

std::string fingerprint(TrainingPlan const& plan) {
  Sha256 digest;
  TextPieces out{[&](std::string_view piece) { digest.add(piece); }};
  write(out, plan);
  out.hand_on();
  return digest.hexadecimal();
}

}  // namespace stagecraft
