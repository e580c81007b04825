#include "libexec/kernels/cuda/attention/cudnn_choice.hpp"

#include <catch2/catch.hpp>
#include <string>
#include <vector>

#include "tests/libexec/kernels/kernel_test.hpp"

namespace stagecraft::test::cudnn_choice_test {
namespace {

using Sums = CudnnChoice::Sums;

/// An attention, as a plan has it.
struct Case {
  std::int64_t b, heads, kv_heads, s, d, value_d;
  std::int64_t window = 0;

  AttentionNeed need(ElementType type = ElementType::bf16) const {
    return {.type = type,
            .attributes = {.dropout = {}, .window = window},
            .q = {s, b, heads, d},
            .k = {s, b, kv_heads, d},
            .v = {s, b, kv_heads, value_d}};
  }
  FlashSizes sizes() const {
    AttentionNeed const all = need();
    return flash_sizes(all.attributes, {}, all.q, all.k, all.v);
  }
};

constexpr Case whole_layer{1, 8, 1, 8192, 128, 128};

TEST_CASE("a missing cuDNN is said once, with the file that was sought", "[exec_kernels]") {
  std::vector<std::string> said;
  CudnnChoice choice{Sums::any_order, "/nowhere",
                     [&](auto const& reason) { said.push_back(reason); }};
  REQUIRE(choice.library() == nullptr);
  REQUIRE(choice.library() == nullptr);
  REQUIRE(said.size() == 1);
  REQUIRE_THAT(said[0], Catch::StartsWith("cuDNN is not here: /nowhere/libcudnn.so.9: "));
}

TEST_CASE("each reason against cuDNN is said once", "[exec_kernels]") {
  std::vector<std::string> said;
  CudnnChoice choice{Sums::in_order, "", [&](auto const& reason) { said.push_back(reason); }};
  for (int i = 0; i < 2; ++i) {
    choice.say_once("one");
    choice.say_once("other");
  }
  REQUIRE(said == std::vector<std::string>{"one", "other"});
}

TEST_CASE("cuDNN is given causal attention in 16 bits, grouped and with windows",
          "[exec_kernels]") {
  auto const type = GENERATE(ElementType::bf16, ElementType::f16);
  Case const some =
      GENERATE(Case{whole_layer}, Case{4, 8, 8, 2048, 96, 96}, Case{1, 2, 2, 37, 24, 40},
               Case{1, 16, 16, 4096, 192, 128}, Case{1, 8, 1, 8192, 128, 128, 1024});
  REQUIRE(cudnn_obstacle(type, some.sizes(), 0) == "");
}

TEST_CASE("cuDNN is not given what would have another result than the plan's", "[exec_kernels]") {
  auto const obstacle = [](FlashSizes const& sizes, double dropout = 0,
                           ElementType type = ElementType::bf16) {
    return cudnn_obstacle(type, sizes, dropout);
  };
  FlashSizes const whole = whole_layer.sizes();
  REQUIRE_THAT(obstacle(whole, 0, ElementType::f32), Catch::Contains("16 bits"));
  REQUIRE_THAT(obstacle(whole, 0, ElementType::f64), Catch::Contains("16 bits"));
  REQUIRE_THAT(obstacle(whole, 0.1), Catch::Contains("masks of dropout"));
  FlashSizes capped = whole;
  capped.softcap = 50;
  REQUIRE_THAT(obstacle(capped), Catch::Contains("cap"));
  REQUIRE_THAT(obstacle(Case{1, 1, 1, 64, 100, 104}.sizes()), Catch::Contains("multiples of 8"));
  REQUIRE_THAT(obstacle(Case{1, 1, 1, 64, 64, 70}.sizes()), Catch::Contains("multiples of 8"));
  REQUIRE_THAT(obstacle(Case{1, 1, 1, 64, 264, 64}.sizes()), Catch::Contains("at most 256"));
}

TEST_CASE("of the parts of a split sequence cuDNN is given those without gaps", "[exec_kernels]") {
  Case const chunk{1, 2, 2, 64, 64, 64};
  // The second of three ranks: its own keys; those of the first, of which its queries see the first
  // chunk; those of the third, which only its second chunk sees.
  SequencePart const second{.rank = 1, .ranks = 3, .zigzag = true};
  auto const is_given = [&](AttentionPart const& part, SequencePart const& sequence,
                            std::int64_t window = 0) {
    AttentionNeed need = chunk.need();
    need.attributes.part = part;
    need.attributes.window = window;
    FlashSizes const sizes = flash_sizes(need.attributes, sequence, need.q, need.k, need.v);
    return cudnn_obstacle(need.type, sizes, 0).empty();
  };
  auto const step = [](int index) {
    return AttentionPart{.kind = AttentionPart::Kind::ring_step, .index = index};
  };
  REQUIRE(is_given(step(0), second));
  REQUIRE(!is_given(step(1), second));
  REQUIRE(!is_given(step(2), second));
  // Of consecutive rows the keys of the first rank are seen by all queries, those of the third by
  // none.
  SequencePart const middle{.rank = 1, .ranks = 3};
  auto const contiguous = [](int index) {
    return AttentionPart{.kind = AttentionPart::Kind::contiguous_step, .index = index};
  };
  REQUIRE(is_given(contiguous(1), middle));
  REQUIRE(!is_given(contiguous(1), middle, 16));
  REQUIRE(!is_given(contiguous(2), middle));
}

TEST_CASE("the workspace of a backward is what cuDNN asks for", "[exec_kernels]") {
  // What cuDNN 9.19 answers for compute capability 9.0 (frontend 1.32, heuristics A).
  struct Answer {
    Case of;
    Sums sums;
    std::int64_t bytes;
  };
  auto const [of, sums, bytes] =
      GENERATE(Answer{whole_layer, Sums::any_order, 67371264},
               Answer{whole_layer, Sums::in_order, 1107558656},
               Answer{{4, 8, 8, 2048, 96, 96}, Sums::any_order, 25428224},
               Answer{{1, 8, 1, 8192, 64, 64}, Sums::any_order, 33816832},
               Answer{{1, 16, 16, 4096, 192, 128}, Sums::any_order, 50594048},
               Answer{{1, 20, 20, 2048, 160, 160}, Sums::any_order, 26378496},
               Answer{{2, 4, 2, 70, 16, 16}, Sums::any_order, 74176},
               Answer{{2, 4, 2, 70, 16, 16}, Sums::in_order, 300480},
               Answer{{2, 4, 4, 70, 16, 16}, Sums::in_order, 264640},
               Answer{{1, 4, 2, 200, 128, 64}, Sums::any_order, 720256},
               Answer{{1, 4, 2, 200, 128, 64}, Sums::in_order, 834944},
               Answer{{1, 3, 1, 37, 64, 64}, Sums::any_order, 57532},
               Answer{{1, 3, 3, 37, 64, 64}, Sums::in_order, 49852},
               Answer{{1, 2, 2, 37, 24, 40}, Sums::any_order, 7656},
               Answer{{1, 2, 2, 300, 256, 256}, Sums::in_order, 494176});
  REQUIRE(cudnn_workspace(of.sizes(), sums).count() == bytes);
}

TEST_CASE("a rank's workspace is that of its largest call of cuDNN", "[exec_kernels]") {
  KernelNeeds needs;
  REQUIRE(cudnn_workspace(needs, Sums::any_order).count() == 0);
  needs.attention = {Case{4, 8, 8, 2048, 96, 96}.need(), whole_layer.need(),
                     Case{1, 64, 64, 8192, 128, 128}.need(ElementType::f32)};
  REQUIRE(cudnn_workspace(needs, Sums::any_order).count() == 67371264);
}

}  // namespace
}  // namespace stagecraft::test::cudnn_choice_test
