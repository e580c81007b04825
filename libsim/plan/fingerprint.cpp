#include <openssl/evp.h>

#include <array>
#include <iomanip>
#include <limits>
#include <sstream>
#include <stdexcept>

#include "libsim/plan/training_plan.hpp"

namespace stagecraft {
namespace {

void write(std::ostream& out, Shape const& shape) {
  for (int i = 0; i < shape.rank(); ++i) out << (i == 0 ? "[" : ",") << shape[i];
  out << "]";
}

void write(std::ostream& out, TensorList const& ids) {
  for (TensorId const id : ids) out << " " << id;
}

void write(std::ostream& out, Tensor const& tensor) {
  out << "tensor " << to_string(tensor.name) << " layer " << tensor.layer
      << (tensor.rebuilt ? " rebuilt " : " ") << name_of(tensor.type) << " "
      << name_of(tensor.category) << " ";
  write(out, tensor.shape);
  out << " buffer " << tensor.buffer << " + " << tensor.offset << " ";
  write(out, tensor.strides);
  out << "\n";
}

void write(std::ostream& out, Op const& op) {
  out << "op " << name_of(op.kind) << " " << to_string(op.name) << " " << name_of(op.phase) << " "
      << name_of(op.stream) << " layer " << op.layer << " reads";
  write(out, op.reads);
  out << " writes";
  write(out, op.writes);
  if (op.gemm.batch > 0) {
    out << " gemm " << op.gemm.batch << "x" << op.gemm.m << "x" << op.gemm.n << "x" << op.gemm.k
        << (op.gemm.transpose_a ? "T" : "N") << (op.gemm.transpose_b ? "T" : "N")
        << (op.gemm.accumulate ? "+" : "=");
  }
  out << " payload " << op.payload.count() << " group " << static_cast<int>(op.group) << " waits "
      << op.waits_for << (op.asynchronous ? " asynchronous" : "")
      << (op.draws_random ? " random" : "") << "\n";
}

void write(std::ostream& out, BlockProgram const& block) {
  out << "block " << static_cast<int>(block.kind) << " layers " << block.layers << " input "
      << block.input << " output " << block.output << " gradients " << block.grad_output << " "
      << block.grad_input << "\n";
  for (Tensor const& tensor : block.tensors) write(out, tensor);
  out << "forward\n";
  for (Op const& op : block.forward) write(out, op);
  out << "backward\n";
  for (Op const& op : block.backward) write(out, op);
}

void write(std::ostream& out, ChunkProgram const& chunk) {
  out << "chunk " << chunk.stage << "." << chunk.chunk << " layers " << chunk.first_layer << "+"
      << chunk.layers << " blocks";
  for (std::int32_t const block : chunk.blocks) out << " " << block;
  out << "\n";
}

void write(std::ostream& out, RankPlan const& rank) {
  out << "rank " << rank.stage << " parameters " << rank.parameters << " optimizer "
      << rank.optimizer_bytes.count() << "\n";
  for (Op const& op : rank.step_ops) write(out, op);
  for (Work const& work : rank.works) {
    out << "work " << static_cast<int>(work.kind) << " " << name_of(work.stream) << " "
        << static_cast<int>(work.group) << " " << work.program << " " << work.first_block << "+"
        << work.block_count << " " << work.op << "\n";
  }
  for (Transfer const& transfer : rank.transfers) {
    out << "transfer " << static_cast<int>(transfer.payload) << static_cast<int>(transfer.end)
        << " " << transfer.peer << " " << transfer.microbatch << "." << transfer.chunk << " #"
        << transfer.message << "\n";
  }
  for (Step const& step : rank.steps) {
    out << static_cast<int>(step.kind) << " " << step.work << " " << step.microbatch << " "
        << step.first << "+" << step.count << "\n";
  }
}

std::string sha256(std::string const& text) {
  std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
  unsigned int length = 0;
  if (EVP_Digest(text.data(), text.size(), digest.data(), &length, EVP_sha256(), nullptr) != 1) {
    throw std::runtime_error("could not compute a SHA-256 digest");
  }
  constexpr char digits[] = "0123456789abcdef";
  std::string hex;
  for (unsigned int i = 0; i < length; ++i) {
    hex += digits[digest[i] >> 4];
    hex += digits[digest[i] & 15];
  }
  return hex;
}

}  // namespace

std::string canonical_text(TrainingPlan const& plan) {
  TrainingConfig const& config = plan.config;
  std::ostringstream out;
  // What the programs do not show: numbers that kernels take, and sizes the ops do not name.
  out << "stagecraft plan 1\n"
      << std::setprecision(std::numeric_limits<double>::max_digits10) << "dropout "
      << config.model.dropout << " heads " << config.model.heads << " kv_heads "
      << config.model.kv_heads << " head_dim " << config.model.head_dim << " vocabulary "
      << config.model.vocabulary << " norm " << static_cast<int>(config.model.norm)
      << " data " << config.parallel.data << " tensor " << config.parallel.tensor << " p2p "
      << static_cast<int>(config.schedule.p2p) << " scatter " << plan.scatters_messages()
      << " deallocation " << config.memory.output_deallocation << " message "
      << plan.message_bytes().count() << "\n";
  for (BlockProgram const& block : plan.blocks) write(out, block);
  for (ChunkProgram const& chunk : plan.chunks) write(out, chunk);
  for (RankPlan const& rank : plan.ranks) write(out, rank);
  return std::move(out).str();
}

std::string fingerprint(TrainingPlan const& plan) { return sha256(canonical_text(plan)); }

}  // namespace stagecraft
