// How fast the CPU kernels run one Transformer layer, forward and backward, op by op.
//
// usage: measure_kernels [PRECISION [ATTENTION [THREADS]]]
//   PRECISION  fp32 (default), fp64, bf16, fp16
//   ATTENTION  unfused (default), flash
//   THREADS    2 by default
//
// The layer: h 1024, a 16, s 512, b 4, dropout 0.1. Times are the fastest of some repetitions.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <map>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "libexec/kernels/cpu/cpu_kernels.hpp"
#include "libexec/kernels/element.hpp"
#include "libsim/modules/blocks.hpp"

namespace stagecraft {
namespace {

constexpr int repetitions = 7;

ModelConfig layer_model(std::string_view precision, std::string_view attention) {
  ModelConfig model;
  model.layers = 1;
  model.hidden = 1024;
  model.heads = 16;
  model.kv_heads = 16;
  model.head_dim = 64;
  model.sequence = 512;
  model.vocabulary = 50257;
  model.ffn_hidden = 4096;
  std::map<std::string_view, Precision> const precisions{{"fp32", Precision::fp32},
                                                         {"fp64", Precision::fp64},
                                                         {"bf16", Precision::bf16},
                                                         {"fp16", Precision::fp16}};
  model.precision = precisions.at(precision);
  model.attention = attention == "flash" ? Attention::flash : Attention::unfused;
  return model;
}

/// Memory of every buffer of a program, filled with normal numbers: never time on zeros.
class Buffers {
 public:
  explicit Buffers(BlockProgram const& program) : program_{&program} {
    for (Tensor const& tensor : program.tensors) {
      memory_.emplace_back(
          tensor.buffer == id_of(tensor) ? static_cast<std::size_t>(tensor.bytes().count()) : 0);
      fill(tensor, memory_.back());
    }
  }

  Operand operand(TensorId id) {
    Tensor const& tensor = program_->tensor(id);
    std::byte* const base = memory_[static_cast<std::size_t>(tensor.buffer)].data();
    return {.data = base + tensor.offset * element_size(tensor.type),
            .type = tensor.type,
            .shape = tensor.shape,
            .strides = tensor.strides};
  }

 private:
  TensorId id_of(Tensor const& tensor) const {
    return static_cast<TensorId>(&tensor - program_->tensors.data());
  }

  static void fill(Tensor const& tensor, std::vector<std::byte>& bytes) {
    if (bytes.empty() || element_size(tensor.type) == 1) return;
    with_storage_type(OpKind::hold, tensor.type, [&](auto tag) {
      using S = decltype(tag);
      std::minstd_rand engine{1};
      auto* const values = reinterpret_cast<S*>(bytes.data());
      for (std::size_t i = 0; i < bytes.size() / sizeof(S); ++i) {
        values[i] =
            narrow<S>(static_cast<Compute<S>>(static_cast<double>(engine()) / 2147483648.0 - 0.5));
      }
    });
  }

  BlockProgram const* program_;
  std::vector<std::vector<std::byte>> memory_;
};

KernelCall call_of(Op const& op, Buffers& buffers) {
  KernelCall call;
  call.kind = op.kind;
  call.attributes = op.attributes;
  for (TensorId const id : op.reads) call.reads.push_back(buffers.operand(id));
  for (TensorId const id : op.writes) call.writes.push_back(buffers.operand(id));
  if (auto const* const dropout = dropout_of(op.attributes)) call.draw.site = dropout->site;
  return call;
}

struct Row {
  Op const* op;
  double seconds;
};

void print(std::vector<Row> const& rows) {
  double gemms = 0;
  double others = 0;
  for (Row const& row : rows) (row.op->kind == OpKind::gemm ? gemms : others) += row.seconds;
  std::printf("%-48s %10s %10s %10s %10s\n", "op", "ms", "GFLOP/s", "GB/s", "% of GEMMs");
  for (Row const& row : rows) {
    std::printf("%-48s %10.3f", to_string(row.op->name).c_str(), row.seconds * 1e3);
    if (row.op->flops > 0) {
      std::printf(" %10.1f", static_cast<double>(row.op->flops) / row.seconds * 1e-9);
    } else {
      std::printf(" %10s", "-");
    }
    std::printf(" %10.1f %10.2f\n",
                static_cast<double>(row.op->traffic.count()) / row.seconds * 1e-9,
                row.seconds / gemms * 100);
  }
  std::printf("%-48s %10.3f\n%-48s %10.3f %32.2f\n", "all GEMMs", gemms * 1e3, "everything else",
              others * 1e3, others / gemms * 100);
}

int measure(std::vector<std::string> const& arguments) {
  std::string const precision = arguments.empty() ? "fp32" : arguments[0];
  std::string const attention = arguments.size() < 2 ? "unfused" : arguments[1];
  int const threads = arguments.size() < 3 ? 2 : std::stoi(arguments[2]);
  BlockShape const shape{.model = layer_model(precision, attention), .micro = 4};
  BlockProgram const program = build_layers(shape, 1, {});
  CpuKernels kernels{{.types = {activation_type(shape.model.precision)}}, {.threads = threads}};
  Buffers buffers{program};
  std::vector<Row> rows;
  for (auto const* const pass : {&program.forward, &program.backward}) {
    for (Op const& op : *pass) {
      if (op.kind != OpKind::hold && op.kind != OpKind::wait) rows.push_back({&op, 1e9});
    }
  }
  for (int repetition = 0; repetition < repetitions; ++repetition) {
    for (Row& row : rows) {
      KernelCall const call = call_of(*row.op, buffers);
      auto const begin = std::chrono::steady_clock::now();
      kernels.run(call);
      std::chrono::duration<double> const taken = std::chrono::steady_clock::now() - begin;
      row.seconds = std::min(row.seconds, taken.count());
    }
  }
  std::printf("%s, %s attention, %d threads\n", precision.c_str(), attention.c_str(), threads);
  print(rows);
  return 0;
}

}  // namespace
}  // namespace stagecraft

int main(int count, char** arguments) {
  try {
    return stagecraft::measure({arguments + 1, arguments + count});
  } catch (std::exception const& error) {
    std::fprintf(stderr, "measure_kernels: %s\n", error.what());
    return 1;
  }
}
