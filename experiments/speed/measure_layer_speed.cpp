// Runs one Transformer layer of the executor, or its matrix products in bare OpenBLAS, once for
// each line of standard input, so that a script can let others take turns with it.
//
// usage: measure_layer_speed [THREADS]   (2)
//   layer  a microbatch forward and backward: prints the seconds of both, allocations included
//   gemm   the same products, each by one call of cblas_sgemm a matrix: prints the seconds of all
//
// The layer: h 1024, a 16, s 512, b 4, float, dropout 0.1.

#include <cblas.h>

#include <chrono>
#include <iostream>
#include <random>
#include <string>
#include <vector>

#include "libexec/backends/cpu_backend.hpp"
#include "libexec/calibration/layer_measurement.hpp"
#include "libsim/plan/make_plan.hpp"

namespace stagecraft {
namespace {

using Instant = std::chrono::steady_clock::time_point;

double seconds_since(Instant begin) {
  return std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
}

TrainingConfig layer_config() {
  TrainingConfig config;
  ModelConfig& model = config.model;
  model.layers = 1;
  model.hidden = 1024;
  model.heads = 16;
  model.kv_heads = 16;
  model.head_dim = 64;
  model.sequence = 512;
  model.vocabulary = 1024;
  model.ffn_hidden = 4096;
  model.precision = Precision::fp32;
  config.batch = {.global = 4, .micro = 4};
  return config;
}

/// The products of a layer, each with its own operands.
class BareProducts {
 public:
  explicit BareProducts(TrainingConfig const& config) {
    for (BlockProgram const& block : make_plan(as_settled(config)).programs.blocks) {
      if (block.kind != BlockProgram::Kind::layers) continue;
      for (Pass const pass : {Pass::forward, Pass::backward}) {
        for (Op const& op : block.ops(pass)) {
          if (auto const* const gemm = std::get_if<GemmAttributes>(&op.attributes)) {
            products_.push_back(make(gemm->shape));
          }
        }
      }
    }
  }

  void run() {
    for (Product& product : products_) {
      GemmShape const& g = product.gemm;
      auto const transposed = [](bool is) { return is ? CblasTrans : CblasNoTrans; };
      for (std::int64_t i = 0; i < g.batch; ++i) {
        cblas_sgemm(CblasRowMajor, transposed(g.transpose_a), transposed(g.transpose_b), blas(g.m),
                    blas(g.n), blas(g.k), 1, product.a.data() + i * g.m * g.k,
                    blas(g.transpose_a ? g.m : g.k), product.b.data() + i * g.k * g.n,
                    blas(g.transpose_b ? g.k : g.n), g.accumulate ? 1 : 0,
                    product.c.data() + i * g.m * g.n, blas(g.n));
      }
    }
  }

 private:
  struct Product {
    GemmShape gemm;
    std::vector<float> a, b, c;
  };
  static blasint blas(std::int64_t extent) { return static_cast<blasint>(extent); }
  static std::vector<float> numbers(std::int64_t count) {
    std::minstd_rand engine{1};
    std::uniform_real_distribution<float> draw{-0.5F, 0.5F};
    std::vector<float> values(static_cast<std::size_t>(count));
    for (float& value : values) value = draw(engine);
    return values;
  }
  static Product make(GemmShape const& g) {
    return {g, numbers(g.batch * g.m * g.k), numbers(g.batch * g.k * g.n),
            numbers(g.batch * g.m * g.n)};
  }

  std::vector<Product> products_;
};

int serve(int threads) {
  TrainingConfig const config = layer_config();
  FreeCommunication const costs;  // of one rank: there is none
  CpuKernelOptions const options{.threads = threads};
  MeasuredLayer layer{
      config,
      {.make_backend = [&](KernelNeeds const& needs) { return make_cpu_backend(needs, options); },
       .costs = &costs},
      threads};
  BareProducts products{config};
  for (std::string command; std::getline(std::cin, command);) {
    Instant const begin = std::chrono::steady_clock::now();
    if (command == "layer") {
      MeasuredLayer::Times const times = layer.run();
      // What the kernels' clock does not see (allocating, releasing) is shared by both passes.
      double const whole = seconds_since(begin);
      double const share = to_seconds(times.forward) / to_seconds(times.sum());
      std::cout << whole * share << ' ' << whole * (1 - share) << std::endl;
    } else {
      products.run();
      std::cout << seconds_since(begin) << std::endl;
    }
  }
  return 0;
}

}  // namespace
}  // namespace stagecraft

int main(int count, char** arguments) {
  try {
    return stagecraft::serve(count < 2 ? 2 : std::stoi(arguments[1]));
  } catch (std::exception const& error) {
    std::cerr << "measure_layer_speed: " << error.what() << '\n';
    return 1;
  }
}
