#include <charconv>
#include <concepts>
#include <cstddef>
#include <cstring>
#include <functional>
#include <limits>
#include <string_view>
#include <type_traits>
#include <vector>

#include "libsim/plan/sha256.hpp"
#include "libsim/plan/training_plan.hpp"

namespace stagecraft {
namespace {

/// Formats text and passes it on in pieces of a size that stays in the cache until it is hashed.
/// The text of a plan takes megabytes, most of them numbers of a digit or two, so that each word of
/// it is written in place.
class TextPieces {
 public:
  using Take = std::function<void(std::string_view)>;

  explicit TextPieces(Take take) : take_{std::move(take)}, piece_(size_ + reserve_) {}

  TextPieces& operator<<(std::string_view text) {
    if (text.size() > reserve_) {
      hand_on();
      take_(text);
      return *this;
    }
    std::memcpy(end(), text.data(), text.size());
    return took(text.size());
  }
  /// A literal, whose length is known when this is compiled.
  template <std::size_t size>
  TextPieces& operator<<(char const (&text)[size]) {
    return words(text);
  }
  TextPieces& operator<<(std::integral auto number) { return words(number); }
  /// Several literals and integers at once.
  template <typename... Words>
  TextPieces& words(Words const&... all) {
    static_assert((longest<Words> + ... + 0) <= reserve_);
    char* const begin = end();
    char* at = begin;
    ((at = put(at, all)), ...);
    return took(at - begin);
  }
  TextPieces& operator<<(double number) {
    char* const begin = end();
    return took(std::to_chars(begin, begin + reserve_, number, std::chars_format::general,
                              std::numeric_limits<double>::max_digits10)
                    .ptr -
                begin);
  }
  void hand_on() {
    take_({piece_.data(), used_});
    used_ = 0;
  }

 private:
  /// The most characters of a word.
  template <typename Word>
  static constexpr std::size_t longest = std::is_array_v<Word> ? std::extent_v<Word> : 20;

  template <std::size_t size>
  static char* put(char* at, char const (&text)[size]) {
    std::memcpy(at, text, size - 1);
    return at + (size - 1);
  }
  static char* put(char* at, std::integral auto number) {
    auto const value = +number;  // a fact is 0 or 1
    if (value >= 0 && value < 10) {
      *at = static_cast<char>('0' + value);
      return at + 1;
    }
    return std::to_chars(at, at + longest<decltype(value)>, value).ptr;
  }

  /// Where the next word begins: there is room for `reserve_` characters.
  char* end() { return piece_.data() + used_; }
  TextPieces& took(std::integral auto characters) {
    used_ += static_cast<std::size_t>(characters);
    if (used_ >= size_) hand_on();
    return *this;
  }

  static constexpr std::size_t size_ = 32 << 10;
  static constexpr std::size_t reserve_ = 256;
  Take take_;
  std::vector<char> piece_;
  std::size_t used_ = 0;  ///< characters of the piece, fewer than size_ between calls
};

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
  out << "\n";
}

void write(TextPieces& /*out*/, NoAttributes const& /*none*/) {}

void write(TextPieces& out, GemmAttributes const& gemm) {
  GemmShape const& shape = gemm.shape;
  out << " gemm " << shape.batch << "x" << shape.m << "x" << shape.n << "x" << shape.k
      << (shape.transpose_a ? "T" : "N") << (shape.transpose_b ? "T" : "N")
      << (shape.accumulate ? "+" : "=") << name_of(gemm.output);
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
}

void write(TextPieces& out, SoftcapAttributes const& softcap) {
  out << " softcap " << softcap.cap << " scale " << softcap.scale;
}

void write(TextPieces& out, RotaryAttributes const& rotary) { out << " rotary " << rotary.base; }

void write(TextPieces& out, VocabularyAttributes const& vocabulary) {
  out << " vocabulary " << vocabulary.words;
}

void write(TextPieces& out, ActivationAttributes const& activation) {
  out << " activation " << static_cast<int>(activation.activation);
}

void write(TextPieces& out, RoutingAttributes const& routing) {
  out << " routing " << static_cast<int>(routing.score) << " " << static_cast<int>(routing.order)
      << (routing.normalise ? " normalised" : "") << " scaling " << routing.scaling << " of "
      << routing.per_token;
  if (routing.expert_rows == 0) return;
  out << " rows " << routing.expert_rows << " groups " << routing.groups_per_token << "/"
      << routing.groups;
}

void write(TextPieces& out, ChunkAttributes const& chunks) {
  out << " chunks " << chunks.outer << "x" << chunks.inner;
}

void write(TextPieces& out, ScaleAttributes const& scale) { out << " scale " << scale.factor; }

// Hyperparameters change neither memory nor time: a plan is the same with others.
void write(TextPieces& /*out*/, ClipAttributes const& /*clip*/) {}
void write(TextPieces& /*out*/, AdamAttributes const& /*adam*/) {}

void write(TextPieces& out, Op const& op) {
  out << "op " << name_of(op.kind) << " " << to_string(op.name) << " " << name_of(op.phase) << " "
      << name_of(op.stream) << " layer " << op.layer << " reads";
  write(out, op.reads);
  out << " writes";
  write(out, op.writes);
  std::visit([&](auto const& attributes) { write(out, attributes); }, op.attributes);
  if (op.group) out << " group " << op.group->value() << " payload " << op.payload.count();
  out << " waits " << op.waits_for << (op.asynchronous ? " asynchronous" : "")
      << (op.draws_random ? " random" : "") << "\n";
}

void write(TextPieces& out, BlockProgram const& block) {
  out << "block " << static_cast<int>(block.kind) << " layers " << block.layers << " input "
      << block.input << " output " << block.output << " gradients " << block.grad_output << " "
      << block.grad_input << "\n";
  for (Tensor const& tensor : block.tensors) write(out, tensor);
  out << "forward\n";
  for (Op const& op : block.forward) write(out, op);
  out << "backward\n";
  for (Op const& op : block.backward) write(out, op);
  if (block.input_gradient.empty() && block.weight_gradient.empty()) return;
  out << "input gradient\n";
  for (Op const& op : block.input_gradient) write(out, op);
  out << "weight gradient\n";
  for (Op const& op : block.weight_gradient) write(out, op);
}

void write(TextPieces& out, ChunkProgram const& chunk) {
  out << "chunk " << chunk.stage << "." << chunk.chunk << " layers " << chunk.first_layer << "+"
      << chunk.layers << " blocks";
  for (std::int32_t const block : chunk.blocks) out << " " << block;
  out << "\n";
}

void write(TextPieces& out, StepOp const& op) {
  write(out, static_cast<Op const&>(op));
  out << (op.own_shard ? "own" : "whole");
  for (ParameterRange const& range : op.ranges) {
    out << " " << range.first << "+" << range.count << (range.decays ? " decays" : "");
    for (AxisShare const& share : range.shares) out << " " << share.axis << "/" << share.replicas;
  }
  out << "\n";
}

void write(TextPieces& out, StagePlan const& rank) {
  out << "rank " << rank.stage << " parameters " << rank.parameters << " optimizer "
      << rank.optimizer_bytes.count() << " shards " << rank.shards << " of";
  for (ShardedRun const& run : rank.sharded_runs) {
    out << " " << run.first << "+" << run.count;
    if (run.shards != rank.shards) out << "/" << run.shards;
  }
  out << "\n";
  for (StepOp const& op : rank.step_ops) write(out, op);
  for (Task const& task : rank.tasks) {
    out << "work " << static_cast<int>(task.kind) << " " << name_of(task.stream) << " "
        << (task.group ? task.group->value() : -1) << " " << task.program << " " << task.first_block
        << "+" << task.block_count << " " << task.op << "\n";
  }
  IssueOrder const order = unroll(rank.program);
  for (Transfer const& transfer : order.transfers) {
    out.words("transfer ", static_cast<int>(transfer.payload), static_cast<int>(transfer.end), " ",
              transfer.peer, " ", transfer.microbatch, ".", transfer.chunk, " #", transfer.message,
              "\n");
  }
  for (IssueEntry const& step : order.entries) {
    out.words(static_cast<int>(step.kind), " ", step.task, " ", step.microbatch, " ", step.first,
              "+", step.count, "\n");
  }
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

void write(TextPieces& out, TrainingPlan const& plan) {
  TrainingConfig const& config = plan.config;
  // What the programs do not contain.
  out << "stagecraft plan 4\n"
      << "p2p " << static_cast<int>(config.schedule.p2p) << " scatter " << plan.scatters_messages()
      << " deallocation " << config.memory.output_deallocation << " message "
      << plan.message_bytes().count() << "\n";
  if (config.dispatch == Dispatch::deepep) out << "dispatch deepep\n";
  write(out, plan.groups);
  for (BlockProgram const& block : plan.blocks) write(out, block);
  for (ChunkProgram const& chunk : plan.chunks) write(out, chunk);
  for (StagePlan const& rank : plan.stages) write(out, rank);
}

}  // namespace

std::string canonical_text(TrainingPlan const& plan) {
  std::string text;
  TextPieces out{[&](std::string_view piece) { text.append(piece); }};
  write(out, plan);
  out.hand_on();
  return text;
}

std::string fingerprint(TrainingPlan const& plan) {
  Sha256 digest;
  TextPieces out{[&](std::string_view piece) { digest.add(piece); }};
  write(out, plan);
  out.hand_on();
  return digest.hexadecimal();
}

}  // namespace stagecraft
