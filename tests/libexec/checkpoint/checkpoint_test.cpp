#include "libexec/checkpoint/checkpoint.hpp"

#include <catch2/catch.hpp>
#include <filesystem>
#include <fstream>
#include <map>
#include <optional>
#include <random>

#include "libexec/checkpoint/checkpoint_file.hpp"
#include "libexec/executor/token_source.hpp"
#include "tests/libexec/executor/plan_grid.hpp"
#include "tests/libexec/executor/small_runs.hpp"
#include "tests/long_tests.hpp"

namespace stagecraft::checkpoint_test {
namespace {

namespace fs = std::filesystem;

class Folder {
 public:
  Folder() : path_{fs::temp_directory_path() / ("stagecraft-checkpoint-" + unique())} {}
  ~Folder() {
    std::error_code ignored;
    fs::remove_all(path_, ignored);
  }
  Folder(Folder const&) = delete;
  Folder& operator=(Folder const&) = delete;
  fs::path const& path() const { return path_; }

 private:
  static std::string unique() {
    static int count = 0;
    return std::to_string(::getpid()) + "-" + std::to_string(count++);
  }
  fs::path path_;
};

SmallRun saving(fs::path const& folder, int steps) {
  SmallRun run;
  run.options.steps = steps;
  run.options.after_last = [folder](RankContext const& context, RankExecutor& executor,
                                    StepReport const&) {
    save_checkpoint(folder, 1, context, executor);
  };
  return run;
}

SmallRun resuming(fs::path const& folder) {
  SmallRun run;
  run.options.before_first = [folder](RankContext const& context, RankExecutor& executor) {
    load_checkpoint(folder, context, executor);
  };
  return run;
}

void require_equal(std::vector<WholeTensor> const& a, std::vector<WholeTensor> const& b) {
  REQUIRE(a.size() == b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    CAPTURE(a[i].name);
    REQUIRE(a[i].name == b[i].name);
    REQUIRE(a[i].values == b[i].values);
  }
}

TEST_CASE("a run that is resumed ends with the bits of one that never stopped", "[checkpoint]") {
  Precision const precision =
      GENERATE(Precision::fp16, Precision::bf16, Precision::fp32, Precision::fp64);
  TrainingConfig config = small_llama(precision);
  config.parallel = {.tensor = 2, .pipeline = 2, .data = 2, .sequence = true};
  config.sharding = sharding_of(GENERATE(false, true));
  Folder const folder;
  execute(config, saving(folder.path(), 2));
  require_equal(parameters_after(config, 2, resuming(folder.path())), parameters_after(config, 4));
}

TEST_CASE("a pipeline of another shape resumes with the same bits", "[checkpoint]") {
  TrainingConfig config = small_gpt(Precision::bf16);
  config.model.tied_embeddings = false;
  std::vector<WholeTensor> const whole = parameters_after(config, 4);
  Folder const folder;
  TrainingConfig other = config;
  other.parallel.pipeline = 4;
  execute(other, saving(folder.path(), 2));
  require_equal(parameters_after(config, 2, resuming(folder.path())), whole);
}

void require_all_read(TrainingConfig const& base, std::vector<NamedRun> const& layouts) {
  Folder const first;
  execute(base, saving(first.path(), 1));
  std::vector<WholeTensor> const expected = parameters_after(base, 1);
  for (NamedRun const& run : layouts) {
    CAPTURE(run.name);
    // Loads the first checkpoint and saves it again without training in between.
    Folder const second;
    SmallRun copy = resuming(first.path());
    auto const load = copy.options.before_first;
    copy.options.before_first = [&](RankContext const& context, RankExecutor& executor) {
      load(context, executor);
      save_checkpoint(second.path(), 1, context, executor);
    };
    execute(run.config, copy);
    // A step without a learning rate shows what was loaded.
    TrainingConfig still = base;
    still.training.learning_rate = 0;
    require_equal(parameters_after(still, 1, resuming(second.path())), expected);
  }
}

TEST_CASE("any layout reads what any other has written", "[checkpoint]") {
  TrainingConfig const base = GENERATE(small_gpt(Precision::fp32), small_llama(Precision::bf16));
  std::vector<NamedRun> layouts = layouts_of(base);
  TrainingConfig replicated = base;  // more tensor ranks than key and value heads
  replicated.parallel.tensor = 4;
  layouts.push_back({"t 4", replicated});
  for (bool const is_sharded : {false, true}) {
    TrainingConfig both = base;  // two copies of the model
    both.parallel = {.pipeline = 2, .interleave = 2};
    both.schedule.kind = ScheduleKind::dualpipe;
    both.schedule.p2p = P2p::overlapped;
    both.sharding = sharding_of(is_sharded);
    layouts.push_back({"dualpipe", both});
  }
  require_all_read(base, layouts);
}

TEST_CASE("experts are saved wherever they are", "[checkpoint]") {
  TrainingConfig base = small_llama(Precision::fp32);
  base.model.experts = ExpertsConfig{.count = 4, .per_token = 2, .ffn_hidden = 12};
  std::vector<NamedRun> layouts;
  for (bool const is_sharded : {false, true}) {
    for (ParallelLayout const& parallel :
         {ParallelLayout{.data = 4, .expert = 4}, ParallelLayout{.data = 4, .expert = 2},
          ParallelLayout{
              .tensor = 2, .data = 2, .sequence = true, .expert = 2, .expert_tensor = 2}}) {
      TrainingConfig config = base;
      config.parallel = parallel;
      config.sharding = sharding_of(is_sharded);
      layouts.push_back({"layout " + std::to_string(layouts.size()), config});
    }
  }
  require_all_read(base, layouts);
}

TEST_CASE("of copies of shards, one is saved, and all resume with its bits", "[checkpoint]") {
  TrainingConfig config = small_llama(Precision::fp32);
  config.parallel.data = 4;
  config.batch.global = 4 * config.batch.micro;
  config.sharding = default_sharding(ShardingKind::fsdp2);
  config.sharding.group = 2;
  Folder const folder;
  execute(config, saving(folder.path(), 2));
  std::map<std::string, std::int64_t> missing;
  for (auto const& file : fs::directory_iterator{folder.path() / "step-2"}) {
    for (CheckpointPiece const& piece : read_checkpoint_file(file.path()).pieces) {
      auto const [of, is_new] =
          missing.try_emplace(piece.name, piece.whole_rows * piece.whole_columns);
      of->second -= piece.elements();
    }
  }
  REQUIRE(missing.size() > 10);
  for (auto const& [name, elements] : missing) {
    CAPTURE(name);
    REQUIRE(elements == 0);
  }
  require_equal(parameters_after(config, 2, resuming(folder.path())), parameters_after(config, 4));
}

TEST_CASE("saving twice leaves one checkpoint, the newest", "[checkpoint]") {
  TrainingConfig const config = small_gpt(Precision::fp32);
  Folder const folder;
  execute(config, saving(folder.path(), 1));
  execute(config, saving(folder.path(), 1));
  execute(config, saving(folder.path(), 3));
  int folders = 0;
  for (auto const& entry : fs::directory_iterator{folder.path()}) folders += entry.is_directory();
  REQUIRE(folders == 1);
  REQUIRE(execute(config, resuming(folder.path())).steps.front().step == 3);
}

TEST_CASE("a checkpoint of a higher step, another run's, outlives those that are saved beside it",
          "[checkpoint]") {
  TrainingConfig const config = small_gpt(Precision::fp32);
  Folder const folder;
  execute(config, saving(folder.path(), 3));
  execute(config, saving(folder.path(), 1));
  REQUIRE(fs::exists(folder.path() / "step-3"));
  REQUIRE(execute(config, resuming(folder.path())).steps.front().step == 1);
}

TEST_CASE("only models in fp16 go on with the loss scale of a checkpoint", "[checkpoint]") {
  Folder const folder;
  execute(small_gpt(Precision::fp16), saving(folder.path(), 1));
  // The gradient of scaled losses would be 65,536 times as large (configs/KEYS.md, loss_scale).
  double const norm =
      execute(small_gpt(Precision::fp16), resuming(folder.path())).steps.front().gradient_norm;
  for (Precision const precision : {Precision::bf16, Precision::fp32}) {
    double const other =
        execute(small_gpt(precision), resuming(folder.path())).steps.front().gradient_norm;
    REQUIRE(other == Approx(norm).epsilon(0.05));
  }
}

void require_refused(fs::path const& folder, std::string const& because) {
  try {
    execute(small_gpt(Precision::fp32), resuming(folder));
    FAIL("it was accepted");
  } catch (std::exception const& error) {
    CAPTURE(error.what());
    REQUIRE(std::string{error.what()}.find(because) != std::string::npos);
  }
}

TEST_CASE("a checkpoint that is missing, damaged or of another model is refused by name",
          "[checkpoint]") {
  Folder const folder;
  require_refused(folder.path(), "latest");
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.pipeline = 2;
  execute(config, saving(folder.path(), 2));
  fs::path const file = folder.path() / "step-2" / "rank-1.h5";
  auto const size = fs::file_size(file);
  SECTION("cut short") {
    fs::resize_file(file, size / 2);
    require_refused(folder.path(), "rank-1.h5");
    REQUIRE(fs::file_size(file) == size / 2);
  }
  SECTION("overwritten") {
    std::fstream bytes{file, std::ios::in | std::ios::out | std::ios::binary};
    for (int i = 0; i < 64; ++i) bytes.put('x');
    bytes.close();
    require_refused(folder.path(), "rank-1.h5");
  }
  SECTION("a rank's file is gone") {
    fs::remove(file);
    require_refused(folder.path(), "not all of");
  }
  SECTION("latest leads elsewhere") {
    std::ofstream{folder.path() / "latest"} << "../elsewhere\n";
    require_refused(folder.path(), "latest");
  }
  SECTION("a model of more layers") {
    config.model.layers *= 2;
    Folder const other;
    execute(config, saving(other.path(), 1));
    require_refused(other.path(), "model.layers: found 8; accepted: 4");
  }
  SECTION("another model") {
    config.model.hidden = 32;
    config.model.head_dim = 8;
    Folder const other;
    execute(config, saving(other.path(), 1));
    require_refused(other.path(), "model.head_dim: found 8; accepted: 4");
  }
}

/// What a run of one step after a checkpoint trains: its loss, or why there is none.
struct Resumed {
  std::optional<double> loss;
  std::string refused{};
};

Resumed resume(TrainingConfig const& config, fs::path const& folder) {
  try {
    return {execute(config, resuming(folder)).steps.front().loss};
  } catch (std::exception const& error) {
    return {std::nullopt, error.what()};
  }
}

TEST_CASE("a flipped bit of a checkpoint is refused with its file, or changes no loss",
          "[checkpoint]") {
  TrainingConfig config = small_gpt(Precision::fp32);
  config.parallel.pipeline = 2;
  config.model.layers = 2;
  Folder const folder;
  execute(config, saving(folder.path(), 2));
  double const loss = resume(config, folder.path()).loss.value();
  std::vector<fs::path> const files{folder.path() / "step-2" / "rank-0.h5",
                                    folder.path() / "step-2" / "rank-1.h5",
                                    folder.path() / "latest"};
  std::mt19937 random{7};
  int refused = 0;
  for (std::size_t i = 0; i < 200; i += case_step(8)) {
    fs::path const& file = files[i % 10 == 9 ? 2 : i % 2];
    auto const at = static_cast<std::streamoff>(random() % fs::file_size(file));
    unsigned const bit = random() % 8;
    auto const flip = [&] {
      std::fstream bytes{file, std::ios::in | std::ios::out | std::ios::binary};
      bytes.seekg(at);
      int const byte = bytes.get();
      bytes.seekp(at);
      bytes.put(static_cast<char>(static_cast<unsigned>(byte) ^ 1U << bit));
    };
    flip();
    Resumed const resumed = resume(config, folder.path());
    flip();
    CAPTURE(file, at, bit, resumed.refused);
    if (resumed.loss) {
      REQUIRE(*resumed.loss == loss);
    } else {
      REQUIRE(resumed.refused.find(folder.path().string()) != std::string::npos);
      ++refused;
    }
  }
  // Numbers, and names of tensors, are most of a file.
  REQUIRE(refused >= (smaller_long_tests ? 12 : 100));
}

TEST_CASE("a checkpoint of a model that differs in no shape is refused by the key that differs",
          "[checkpoint]") {
  TrainingConfig const config = small_gpt(Precision::fp32);
  Folder const folder;
  execute(config, saving(folder.path(), 1));
  TrainingConfig other = config;
  other.model.residual = Residual::parallel;
  REQUIRE_THAT(resume(other, folder.path()).refused,
               Catch::Contains("model.residual: found \"sequential\"; accepted: \"parallel\""));
  other = config;
  other.model.heads = other.model.kv_heads = 2;
  other.model.head_dim = 8;
  REQUIRE_THAT(resume(other, folder.path()).refused, Catch::Contains(": found "));
  other = config;  // a training goes on in other ways
  other.model.dropout = 0;
  other.model.attention = Attention::flash;
  REQUIRE(resume(other, folder.path()).loss.has_value());
}

}  // namespace
}  // namespace stagecraft::checkpoint_test
