#include "libsim/import/huggingface/huggingface_import.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <set>

#include "libsim/modules/blocks.hpp"
#include "libsim/run/config_files.hpp"
#include "tests/libsim/import/import_fixtures.hpp"

namespace stagecraft::huggingface_import_test {
namespace {

/// A public model and the number of its parameters, tied matrices counted once. Published: the sums
/// over the tensors of the checkpoints on Hugging Face, as model cards have them. All were counted
/// again from the architecture, with a queries and g keys and values of d elements, and an MLP of
/// width f: layers x (h (a + 2g) d + a d h + 2hf or 3hf, biases and norms) + embeddings + final
/// norm. OPT 66B, SantaCoder, StarCoder2, Phi-3 and Falcon 40B rest on that count alone.
struct Published {
  char const* name;
  std::int64_t parameters;
  HuggingfaceOptions options{};
};

HuggingfaceOptions with_sequence(std::int64_t sequence) {
  HuggingfaceOptions options;
  options.sequence = sequence;
  return options;
}

std::vector<Published> const published{
    // 12 (12h^2 + 13h) + (50257 + 1024) h + 2h, h = 768; released as "124M".
    {"gpt2", 124'439'808},
    {"gpt2-xl", 1'557'611'200},
    // 44 (12h^2 + 13h) + 2 x 50432h + 2h, h = 6144: two norms although the layers are parallel.
    {"gpt-neox-20b", 20'554'567'680},
    // 24 (12h^2 + 13h) + (50272 + 2048 + 2) h + 2h, h = 2048: the table of positions has two more
    // rows than positions.
    {"opt-1.3b", 1'315'758'080},
    // Likewise with 64 layers of 9216.
    {"opt-66b", 65'719'701'504},
    {"llama-2-7b", 6'738'415'616},
    {"llama-2-13b", 13'015'864'320},
    {"llama-2-70b", 68'976'648'192},
    {"llama-3-8b", 8'030'261'248},
    {"llama-3.1-70b", 70'553'706'496},
    {"llama-3.1-405b", 405'853'388'800},
    {"mistral-7b-v0.1", 7'241'732'096, with_sequence(4096)},
    // 28 (h (h + 2 x 512) + h^2 + 3hf + h + 2 x 512 + 2h) + 2 x 152064h + h, h = 3584, f = 18944:
    // biases of queries, keys and values alone.
    {"qwen2-7b", 7'615'616'512},
    {"qwen2.5-0.5b", 494'032'768},
    // 18 (2 h^2 + 2 x 256h + 3hf + 2h) + 256000h + h, h = 2048, f = 16384.
    {"gemma-2b", 2'506'172'416},
    // Heads of 256, 16 of them, are wider together than h = 3072.
    {"gemma-7b", 8'537'680'896},
    // 32 (h (h + 2 x 64) + h^2 + 8h^2 + 2h) + 65024h + 2h, h = 4544: one key-value head, one norm a
    // layer. The checkpoint holds the tied matrix twice: 7,217,189,760.
    {"falcon-7b", 6'921'720'704, with_sequence(2048)},
    // 60 (h (h + 16 x 64) + 9h^2 + 4h) + 65024h + 2h, h = 8192: eight of them, and two norms. The
    // checkpoint holds the tied matrix twice: 41,835,970,560.
    {"falcon-40b", 41'303'293'952, with_sequence(2048)},
    // 30 (h (h + 512) + h^2 + 2hf + 2h + 512 + f + h + 4h) + 49152h + 2h, h = 3072, f = 12288.
    {"starcoder2-3b", 3'030'371'328, with_sequence(4096)},
    // 24 (h (h + 256) + h^2 + 8h^2 + biases and norms) + (49280 + 2048) h + 2h, h = 2048.
    {"santacoder", 1'124'886'528},
    {"phi-3-mini-4k", 3'821'079'552, with_sequence(2047)}};

TEST_CASE("an imported model has the published number of parameters", "[import]") {
  std::set<std::string> seen;
  for (Published const& row : published) {
    CAPTURE(row.name);
    HuggingfaceImport const import = import_huggingface(config_file(row.name), row.options);
    REQUIRE(parameter_count(import.model) == row.parameters);
    seen.insert(row.name);
  }
  for (auto const& entry : std::filesystem::directory_iterator{fixtures / "configs"}) {
    std::string const name = entry.path().stem();
    REQUIRE((seen.contains(name) || name == "mixtral-8x7b"));
  }
}

TEST_CASE("an imported model is written as a model file that loads to the same model", "[import]") {
  for (Published const& row : published) {
    CAPTURE(row.name);
    HuggingfaceImport const import = import_huggingface(config_file(row.name), row.options);
    std::string const text = "model:\n" + indented(to_model_file(import, row.name));
    REQUIRE_THAT(text, Catch::Contains(std::to_string(row.parameters) + " parameters"));
    REQUIRE(model_of_file(to_model_file(import, row.name)) == import.model);
  }
}

TEST_CASE("the models of this repository are those that their config.json says", "[import]") {
  std::filesystem::path const models =
      std::filesystem::path{STAGECRAFT_SOURCE_DIR} / "configs" / "models";
  for (auto const& [ours, theirs] : {std::pair{"llama2-7b", "llama-2-7b"},
                                     {"llama2-70b", "llama-2-70b"},
                                     {"llama3-8b", "llama-3-8b"},
                                     {"llama3.1-405b", "llama-3.1-405b"}}) {
    CAPTURE(ours);
    ModelConfig model = load_model_file(models / (std::string{ours} + ".yaml"));
    ModelConfig imported =
        import_huggingface(config_file(theirs), with_sequence(model.sequence)).model;
    // The files leave out what changes neither memory nor time; Llama 2 was released in fp16.
    model.rotary_base = imported.rotary_base;
    model.norm_epsilon = imported.norm_epsilon;
    model.precision = imported.precision;
    REQUIRE(imported == model);
  }
}

TEST_CASE("each family becomes the architecture that its class in transformers has", "[import]") {
  ModelConfig const neox = import_huggingface(config_file("gpt-neox-20b"), {}).model;
  REQUIRE(neox.residual == Residual::parallel);
  REQUIRE(neox.positions == Positions::rotary);
  REQUIRE((neox.biases && !neox.tied_embeddings && neox.dropout == 0));

  ModelConfig const opt = import_huggingface(config_file("opt-1.3b"), {}).model;
  REQUIRE(opt.activation == Activation::relu);
  REQUIRE(position_rows(opt) == 2050);
  REQUIRE(opt.dropout == 0.1);
  REQUIRE(attention_dropout(opt) == 0);
  REQUIRE(opt.precision == Precision::fp16);

  ModelConfig const falcon = import_huggingface(config_file("falcon-7b"), with_sequence(64)).model;
  REQUIRE(falcon.residual == Residual::parallel_one_norm);
  REQUIRE(falcon.kv_heads == 1);
  REQUIRE(falcon.norm == Norm::layernorm);
  ModelConfig const large = import_huggingface(config_file("falcon-40b"), with_sequence(64)).model;
  REQUIRE(large.residual == Residual::parallel);
  REQUIRE(large.kv_heads == 8);

  ModelConfig const gemma = import_huggingface(config_file("gemma-2b"), {}).model;
  REQUIRE(gemma.activation == Activation::geglu);
  REQUIRE((gemma.head_dim == 256 && gemma.kv_heads == 1 && gemma.tied_embeddings));

  ModelConfig const qwen = import_huggingface(config_file("qwen2-7b"), {}).model;
  REQUIRE((qwen.qkv_bias && !qwen.biases && qwen.rotary_base == 1e6));
}

TEST_CASE("a shorter sequence keeps learned positions and shortens the rest", "[import]") {
  ModelConfig const gpt2 = import_huggingface(config_file("gpt2"), with_sequence(512)).model;
  REQUIRE(gpt2.sequence == 512);
  REQUIRE(position_rows(gpt2) == 1024);
  REQUIRE(parameter_count(gpt2) == 124'439'808);
  REQUIRE(import_huggingface(config_file("llama-2-7b"), with_sequence(512)).model.sequence == 512);
}

TEST_CASE("attention and precision are what the options say", "[import]") {
  HuggingfaceOptions options;
  options.attention = Attention::unfused;
  options.precision = Precision::fp32;
  ModelConfig const model = import_huggingface(config_file("llama-3-8b"), options).model;
  REQUIRE(model.attention == Attention::unfused);
  REQUIRE(model.causal_mask == CausalMask::per_microbatch);
  REQUIRE(model.precision == Precision::fp32);
}

TEST_CASE("notes say what was assumed and approximated", "[import]") {
  HuggingfaceImport const import = import_huggingface(config_file("gpt2"), {});
  REQUIRE(
      import.notes ==
      std::vector<std::string>{
          "not in the file, hence transformers' default: tie_word_embeddings true",
          "activation_function gelu_new is modelled as gelu: the same tensors and the same time",
          "sequence 1024 is the longest that the file allows, which need not be what is trained: "
          "--sequence N sets another",
          "the file has no torch_dtype: fp16 is assumed (--precision P otherwise)",
          "not in any config.json: attention flash (--attention), causal_mask none, "
          "dropout_mask stored, vocabulary_multiple 128"});
  std::vector<std::string> names;
  for (Omission const& omission : import.left_out) {
    REQUIRE(omission.effect == OmittedEffect::none);
    names.push_back(omission.name);
  }
  REQUIRE(names == std::vector<std::string>{
                       "summary_type", "summary_use_proj", "summary_first_dropout",
                       "summary_proj_to_labels", "architectures", "bos_token_id", "eos_token_id",
                       "initializer_range", "model_type", "task_specific_params"});
}

}  // namespace
}  // namespace stagecraft::huggingface_import_test
