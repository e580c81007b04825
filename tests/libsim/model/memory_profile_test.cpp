#include "libsim/program/memory_profile.hpp"

#include <catch2/catch.hpp>

#include "libsim/modules/blocks.hpp"
#include "tests/libsim/model/layer_kinds.hpp"

namespace stagecraft::memory_profile_test {
namespace {

// One shape on one rank, small enough to count: s = 128, b = 2, h = 1024, a = 16, so that as^2b =
// 2sbh and a layer keeps 34sbh + 5as^2b = 44sbh, beside 16sb of statistics.
constexpr std::int64_t s = 128, b = 2, h = 1024, sbh = s * b * h, statistics = 16 * s * b;

BlockProgram layer_with(RecomputePolicy const& policy) {
  return build_layers({.model = gpt(1, h, 16, s, 1024), .micro = b}, 1, policy);
}

TEST_CASE("the backward of a fully recomputed layer peaks at 57sbh with its checkpoint",
          "[memory]") {
  // At the GEMM for the gradient of the GeLU's output:
  //    2  the checkpoint                         -> held since forward
  //    2  the gradient received                  -> held by the checkpoint until its backward is
  //    over
  //   42  everything else a layer keeps, rebuilt (44 less the checkpoint)
  //    2  the layer's output, rebuilt            -> held likewise
  //    2  the gradient behind the last dropout (its mask, 1sbh, is gone)   -1
  //    8  the gradient of the GeLU's output
  // 57sbh and the rebuilt statistics; 53sbh above the start, where checkpoint and gradient are
  // there.
  BlockProgram const layer = layer_with({.granularity = RecomputeGranularity::full});
  MemoryProfile const backward = profile_memory(layer, Pass::backward);
  REQUIRE(backward.peak == 53 * sbh + statistics);
  REQUIRE(backward.activation_peak == backward.peak);
  REQUIRE(to_string(layer.backward[static_cast<std::size_t>(backward.peak_op)].name) ==
          "mlp.down.input_gradient");
  // Rebuilt: 42sbh less the mask, the output and the statistics. New: 2 + 8.
  REQUIRE(backward.at_peak[Category::recomputed] == 43 * sbh + statistics);
  REQUIRE(backward.at_peak[Category::activations] == 10 * sbh);
}

TEST_CASE("the backward of a stored layer peaks at 9sbh above what it keeps and receives",
          "[memory]") {
  // The same GEMM: 2 and 8 for gradients, less the mask.
  MemoryProfile const backward = profile_memory(layer_with({}), Pass::backward);
  REQUIRE(backward.peak == 9 * sbh);
}

TEST_CASE("a fully recomputed forward peaks at the GeLU, at 20sbh with its checkpoint",
          "[memory]") {
  // Checkpoint 2, residual 2, input and output of the GeLU 8 each; its checkpoint was received.
  // Softmax, mask and dropout output, with the QKV buffer and the checkpoint, make 18.
  BlockProgram const layer = layer_with({.granularity = RecomputeGranularity::full});
  MemoryProfile const forward = profile_memory(layer, Pass::forward);
  REQUIRE(forward.peak == 18 * sbh);
  REQUIRE(to_string(layer.forward[static_cast<std::size_t>(forward.peak_op)].name) ==
          "mlp.activation.forward");
  REQUIRE(forward.net.sum() == 2 * sbh);  // its output
}

TEST_CASE("a stored forward ends with what it keeps and its output", "[memory]") {
  MemoryProfile const forward = profile_memory(layer_with({}), Pass::forward);
  REQUIRE(forward.net.sum() == 44 * sbh - 2 * sbh + statistics + 2 * sbh);
}

TEST_CASE("both passes together leave the gradient of the input where the input was", "[memory]") {
  // Conservation: forward turns the input into the output, backward a gradient into a gradient.
  for (NamedBlock const& named : blocks_of_many_kinds()) {
    BlockProgram const& block = named.block;
    auto const bytes = [&](TensorId id) {
      return id == no_tensor ? 0 : block.tensor(block.tensor(id).buffer).bytes().count();
    };
    CategoryBytes const left =
        profile_memory(block, Pass::forward).net + profile_memory(block, Pass::backward).net;
    CAPTURE(named.name);
    REQUIRE(left[Category::recomputed] == 0);
    REQUIRE(left[Category::communication] == 0);
    REQUIRE(left.sum() == bytes(block.output) - bytes(block.input) + bytes(block.grad_input) -
                              bytes(block.grad_output));
  }
}

TEST_CASE(
    "profiles in a row equal the profile of both: net adds, the first highest sum is the peak",
    "[memory]") {
  auto const profile = [](std::int64_t net, std::int64_t peak, Category category) {
    MemoryProfile made;
    made.net[category] = net;
    made.at_peak[category] = peak;
    made.peak = peak;
    made.activation_peak = category == Category::activations ? peak : 0;
    return made;
  };
  MemoryProfile both = profile(5, 9, Category::activations);
  both.append(profile(-2, 4, Category::recomputed));  // 5 + 4 = 9: not higher, the first stays
  REQUIRE(both.peak == 9);
  REQUIRE(both.at_peak[Category::activations] == 9);
  both.append(profile(0, 8, Category::workspace));  // 3 + 8 = 11
  REQUIRE(both.peak == 11);
  REQUIRE(both.at_peak[Category::activations] == 5);
  REQUIRE(both.at_peak[Category::recomputed] == -2);
  REQUIRE(both.at_peak[Category::workspace] == 8);
  REQUIRE(both.net.sum() == 3);
}

}  // namespace
}  // namespace stagecraft::memory_profile_test
