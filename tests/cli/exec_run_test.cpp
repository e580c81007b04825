#include <algorithm>
#include <catch2/catch.hpp>
#include <cstdlib>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <optional>
#include <set>
#include <string>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"

namespace stagecraft::exec_run_test {
namespace {

using Catch::Contains;

/// An environment variable that has a value while the object lives, and then its old one.
class ScopedVariable {
 public:
  ScopedVariable(char const* name, char const* value) : name_{name} {
    if (char const* const before = std::getenv(name)) before_ = before;
    ::setenv(name, value, 1);
  }
  ~ScopedVariable() { before_ ? ::setenv(name_, before_->c_str(), 1) : ::unsetenv(name_); }
  ScopedVariable(ScopedVariable const&) = delete;
  ScopedVariable(ScopedVariable&&) = delete;
  ScopedVariable& operator=(ScopedVariable const&) = delete;
  ScopedVariable& operator=(ScopedVariable&&) = delete;

 private:
  char const* name_;
  std::optional<std::string> before_;
};

/// A run file in a folder of its own.
class SmallRunFile {
 public:
  SmallRunFile()
      : path_{folder_.write("run.yaml",
                            "model: {layers: 4, hidden: 32, heads: 4, sequence: 16, vocabulary: "
                            "256, precision: fp32}\n"
                            "system: " STAGECRAFT_SOURCE_DIR "/configs/systems/selene-a100.yaml\n"
                            "parallel: {tensor: 2, pipeline: 2, sequence: true}\n"
                            "batch: {global: 4, micro: 1}\nrecompute: selective\n")} {}
  ProgramResult run(std::string const& more = "") const {
    return run_stagecraft_exec("run " + path_ + " " + more);
  }
  std::string const& path() const { return path_; }
  std::filesystem::path const& folder() const { return folder_.path(); }

 private:
  TemporaryFolder folder_;
  std::string path_;
};

TEST_CASE("stagecraft-exec run --json counts what simulate --json predicts, byte for byte") {
  SmallRunFile const file;
  ProgramResult const result = file.run("--steps 2 --json");
  REQUIRE(result.exit_code == 0);
  auto const counted = nlohmann::json::parse(result.output);
  REQUIRE(counted.at("schema") == "stagecraft.execution/1");
  REQUIRE(counted.at("steps").size() == 2);
  auto const predicted = json_of("simulate " + file.path() + " --json");
  REQUIRE(counted.at("plan") == predicted.at("plan"));
  REQUIRE(counted.at("ranks").size() == 4);
  for (auto const& rank : counted.at("ranks")) {
    auto const& stage = predicted.at("stages").at(rank.at("stage").get<std::size_t>());
    for (auto const& [category, bytes] : rank.at("at_peak").items()) {
      CAPTURE(category);
      if (category != "workspace") REQUIRE(bytes == stage.at("at_peak").at(category));
    }
    REQUIRE(rank.at("activation_peak_bytes") == stage.at("activation_peak_bytes"));
  }
}

TEST_CASE("stagecraft-exec run --trace writes a trace that compare takes") {
  SmallRunFile const file;
  std::string const executed = (file.folder() / "executed.h5").string();
  std::string const simulated = (file.folder() / "simulated.h5").string();
  REQUIRE(file.run("--clock " + std::string{GENERATE("wall", "virtual")} + " --trace " + executed)
              .exit_code == 0);
  REQUIRE(
      run_stagecraft("simulate " + file.path() + " --detail op --trace " + simulated).exit_code ==
      0);
  auto const json = json_of("compare " + simulated + " " + executed + " --json");
  REQUIRE(json.at("same_plan") == true);
  REQUIRE(json.at("same_work") == true);
  REQUIRE(json.at("ranks").size() == 4);
}

TEST_CASE("stagecraft-exec run --trace --detail chunk has the rows of simulate's") {
  SmallRunFile const file;
  std::string const executed = (file.folder() / "executed.h5").string();
  std::string const simulated = (file.folder() / "simulated.h5").string();
  REQUIRE(file.run("--detail chunk --trace " + executed).exit_code == 0);
  REQUIRE(run_stagecraft("simulate " + file.path() + " --trace " + simulated).exit_code == 0);
  auto const json = json_of("compare " + simulated + " " + executed + " --json");
  REQUIRE(json.at("same_plan") == true);
  for (auto const& op : json.at("ops")) {
    CAPTURE(op);
    // What only a system has is no op of the plan.
    bool const is_of_plan = op.at("op") != "iteration_overhead" && op.at("phase") != "host_wait";
    if (is_of_plan) REQUIRE(op.at("seconds")[1].get<double>() > 0);
  }
  for (auto const& rank : json.at("ranks")) {
    for (auto const& [category, bytes] : rank.at("by_category").items()) {
      CAPTURE(category);
      if (category != "workspace") REQUIRE(bytes[0] == bytes[1]);
    }
  }
}

TEST_CASE("stagecraft-exec run --ranks solo runs one rank, with the memory it has among all") {
  SmallRunFile const file;
  std::string const rank = GENERATE("0", "3");
  std::string const trace = (file.folder() / "solo.h5").string();
  ProgramResult const result =
      file.run("--ranks solo --rank " + rank + " --steps 2 --json --trace " + trace);
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.errors, Contains("step 1  rank " + rank + " alone"));
  auto const alone = nlohmann::json::parse(result.output);
  REQUIRE(alone.at("clock") == "solo");
  REQUIRE(alone.at("steps").at(1).at("loss").is_null());
  REQUIRE(alone.at("ranks").size() == 1);
  auto const together = nlohmann::json::parse(file.run("--json").output);
  REQUIRE(alone.at("ranks").at(0) == together.at("ranks").at(std::stoul(rank)));
  auto const compared = json_of("compare " + trace + " " + trace + " --json");
  REQUIRE(compared.at("ranks").size() == 1);
}

TEST_CASE("stagecraft-exec run leaves nothing of a trace where it fails") {
  SmallRunFile const file;
  auto const [options, code] = GENERATE(
      table<std::string, int>({{"--memory-limit '600 KiB'", 3}, {"--resume /nowhere/there", 2}}));
  REQUIRE(file.run(options + " --trace " + (file.folder() / "trace.h5").string()).exit_code ==
          code);
  for (auto const& entry : std::filesystem::directory_iterator{file.folder()}) {
    REQUIRE(entry.path().filename() == "run.yaml");
  }
}

TEST_CASE("stagecraft-exec refuses a serial OpenBLAS at the start") {
  SmallRunFile const file;
  // Sanitizers want to be loaded first, and can do without.
  ProgramResult const result = run_stagecraft_exec(
      "run " + file.path(), "ASAN_OPTIONS=verify_asan_link_order=0 LD_PRELOAD=" SERIAL_OPENBLAS);
  REQUIRE(result.exit_code == 1);
  REQUIRE_THAT(result.errors,
               Contains("OpenBLAS is a serial build") && Contains("install libopenblas0-pthread"));
  REQUIRE(result.output.empty());
}

TEST_CASE("stagecraft-exec run --memory-limit says where it does not fit, exit code 3") {
  SmallRunFile const file;
  ProgramResult const result = file.run("--memory-limit '600 KiB'");
  REQUIRE(result.exit_code == 3);
  REQUIRE_THAT(result.errors, Contains("rank ") && Contains("does not fit") &&
                                  Contains("are live") && Contains("parameters"));
  REQUIRE(result.output.empty());
}

TEST_CASE("stagecraft-exec run resumes from what it has saved") {
  SmallRunFile const file;
  std::string const folder = (file.folder() / "checkpoint").string();
  REQUIRE(file.run("--steps 2 --save " + folder).exit_code == 0);
  ProgramResult const resumed =
      file.run("--set parallel.tensor=1 --set parallel.sequence=false --resume " + folder);
  REQUIRE(resumed.exit_code == 0);
  REQUIRE_THAT(resumed.errors, Contains("step 2  loss"));
}

TEST_CASE("a checkpoint of schema 1, which had no checksums, goes on with the same bits") {
  TemporaryFolder const folder;
  std::string const file = folder.write("run.yaml",
                                        "model: {layers: 1, hidden: 8, heads: 2, sequence: 8, "
                                        "vocabulary: 16, vocabulary_multiple: 1, precision: fp32, "
                                        "ffn_hidden: 16}\nsystem: selene-a100\n"
                                        "batch: {global: 1, micro: 1}\n");
  auto const last_loss = [&](std::string const& options) {
    ProgramResult const result = run_stagecraft_exec("run " + file + " --json " + options);
    REQUIRE(result.exit_code == 0);
    return nlohmann::json::parse(result.output)["steps"].back()["loss"].get<double>();
  };
  // Two steps of it were saved by the version before checksums.
  std::string const saved = STAGECRAFT_SOURCE_DIR "/tests/libexec/checkpoint/of_schema_1";
  REQUIRE(last_loss("--resume " + saved) == last_loss("--steps 3"));
  REQUIRE_THAT(run_stagecraft_exec("run " + file + " --resume " + saved).errors,
               Contains("saved by an earlier version: it has no checksums"));
}

TEST_CASE("a loss that is not finite leaves the checkpoint before it, and ends with 1") {
  SmallRunFile const file;
  std::string const folder = (file.folder() / "checkpoint").string();
  REQUIRE(file.run("--steps 2 --save " + folder).exit_code == 0);
  ProgramResult const diverged = file.run("--steps 3 --set training.learning_rate=9e8 --resume " +
                                          folder + " --save " + folder);
  REQUIRE(diverged.exit_code == 1);
  REQUIRE_THAT(diverged.errors, Contains("is not finite: nothing was saved after it"));
  ProgramResult const resumed = file.run("--resume " + folder);
  REQUIRE(resumed.exit_code == 0);
  REQUIRE_THAT(resumed.errors, Contains("step 2  loss"));
}

TEST_CASE("stagecraft-exec run is not copied silently by a launcher") {
  SmallRunFile const file;
  ScopedVariable const rank{"OMPI_COMM_WORLD_RANK", "0"};
  ScopedVariable const size{"OMPI_COMM_WORLD_SIZE", "4"};
  ProgramResult const refused = file.run("--steps 1");
  REQUIRE(refused.exit_code == 2);
  REQUIRE_THAT(refused.errors,
               Contains("--ranks: found nothing, in one of 4 processes that mpirun has started"));
  REQUIRE(file.run("--steps 1 --ranks threads").exit_code == 0);
  ScopedVariable const other{"OMPI_COMM_WORLD_RANK", "2"};
  ProgramResult const silent = file.run("--steps 1");
  REQUIRE(silent.exit_code == 2);
  REQUIRE(silent.errors.empty());
}

TEST_CASE("stagecraft-exec run keeps as many checkpoints as it is told, one per step") {
  SmallRunFile const file;
  std::filesystem::path const folder = file.folder() / "checkpoint";
  auto const saved = [&](std::string const& options) {
    REQUIRE(file.run(options + " --save " + folder.string()).exit_code == 0);
    std::set<std::string> names;
    for (auto const& entry : std::filesystem::directory_iterator{folder}) {
      names.insert(entry.path().filename().string());
    }
    return names;
  };
  using Names = std::set<std::string>;
  REQUIRE(saved("--steps 4 --save-every 2") == Names{"latest", "step-4"});
  REQUIRE(saved("--steps 5 --save-every 2 --keep 2 --resume " + folder.string()) ==
          Names{"latest", "step-8", "step-9"});
  REQUIRE(saved("--steps 3 --save-every 1 --keep 4 --resume " + folder.string()) ==
          Names{"latest", "step-9", "step-10", "step-11", "step-12"});
}

TEST_CASE("stagecraft-exec run refuses bad input with exit code 2") {
  SmallRunFile const file;
  auto const [options, part] = GENERATE(table<std::string, std::string>(
      {{"--data /nowhere/text", "/nowhere/text"},
       {"--data /nowhere/text",
        "--data: found '/nowhere/text' (No such file or directory); accepted: a file"},
       {"--save-every 2", "--save-every: found without --save; accepted: together with --save"},
       {"--keep 2", "--keep: found without --save; accepted: together with --save"},
       {"--save there --keep 0", "--keep"},
       {"--data /dev/zero", "--data: found '/dev/zero', a pipe or device"},
       {"--resume /nowhere/checkpoint", "/nowhere/checkpoint/latest"},
       {"--clock sideways", "--clock: found 'sideways'; accepted: wall, virtual"},
       {"--steps 0", "--steps"},
       {"--ranks solo --rank 4", "--rank"},
       {"--rank 1",
        "--rank: found without --ranks solo or nccl; accepted: together with --ranks solo or nccl"},
       {"--master here:1",
        "--master: found without --ranks nccl; accepted: together with --ranks nccl"},
       {"--ranks solo --clock virtual", "--clock: found 'virtual'; accepted with --ranks solo"},
       {"--ranks solo --save there", "--save: found 'there'; accepted with --ranks solo"},
       {"--detail chunk", "--detail: found without --trace; accepted: together with --trace"},
       {"--trace x.h5 --detail all", "--detail: found 'all'; accepted: chunk, op"},
       {"--memory-limit 5", "--memory-limit: found '5'"},
       {"--set model.heads=5", "model.heads"}}));
  CAPTURE(options);
  ProgramResult const result = file.run(options);
  REQUIRE(result.exit_code == 2);
  REQUIRE_THAT(result.errors, Contains(part));
  REQUIRE(result.output.empty());
}

TEST_CASE("stagecraft-exec run cannot write a trace or a checkpoint where there is no folder") {
  SmallRunFile const file;
  REQUIRE(file.run("--trace /nowhere/trace.h5").exit_code == 1);
  REQUIRE(file.run("--save /proc/nowhere").exit_code == 1);
}

TEST_CASE("a checkpoint that cannot be written is refused before the first step, as a trace is") {
  ProgramResult const result = SmallRunFile{}.run("--save /proc/nowhere");
  REQUIRE(result.exit_code == 1);
  REQUIRE_THAT(result.errors, Contains("could not write /proc/nowhere") && !Contains("step 0"));
}

TEST_CASE("a checkpoint that outgrows the disk is one line, and leaves nothing of itself") {
  SmallRunFile const file;
  std::string const folder = (file.folder() / "checkpoint").string();
  // What HDF5 itself leaks of a file that it cannot finish is not asked.
  ProgramResult const result = run_stagecraft_exec("run " + file.path() + " --save " + folder,
                                                   "ulimit -f 16; ASAN_OPTIONS=detect_leaks=0");
  REQUIRE(result.exit_code == 1);
  std::string const words = result.errors.substr(result.errors.find('\n') + 1);
  REQUIRE_THAT(result.errors, Contains("step 0  loss"));
  REQUIRE(std::count(words.begin(), words.end(), '\n') == 1);
  REQUIRE_THAT(words, Contains("could not write") && Contains(": File too large\n"));
  REQUIRE(std::filesystem::is_empty(folder));
}

TEST_CASE("a plan that this machine cannot hold is refused before anything is allocated") {
  SmallRunFile const file;
  // 7e14 parameters: nothing that any machine would begin to allocate.
  std::string const huge = "--set model.hidden=524288 --set model.layers=200";
  ProgramResult const together = file.run(huge);
  REQUIRE(together.exit_code == 3);
  REQUIRE_THAT(together.errors, Contains("the 4 ranks need ") &&
                                    Contains(", and this machine has ") &&
                                    Contains("--ranks solo") && Contains("-twin.yaml"));
  REQUIRE(std::count(together.errors.begin(), together.errors.end(), '\n') == 1);
  ProgramResult const alone = file.run(huge + " --ranks solo --rank 1");
  REQUIRE(alone.exit_code == 3);
  REQUIRE_THAT(alone.errors, Contains("rank 1 needs ") && !Contains("--ranks solo"));
}

TEST_CASE("where nothing is live yet, a limit is refused without a list of nothing") {
  ProgramResult const result = SmallRunFile{}.run("--memory-limit '1 KiB'");
  REQUIRE(result.exit_code == 3);
  REQUIRE(std::count(result.errors.begin(), result.errors.end(), '\n') == 1);
  REQUIRE_THAT(result.errors, Contains("does not fit into the limit of 1.00 KiB beside ") &&
                                  Contains("; nothing else is live\n"));
}

TEST_CASE("stagecraft-exec devices says what runs here and why not") {
  ProgramResult const result = run_stagecraft_exec("devices");
  REQUIRE(result.exit_code == 0);
  REQUIRE_THAT(result.output, Contains("cpu  ") && Contains("cuda  no: "));
}

TEST_CASE("a process for each GPU is refused in one line where it cannot run") {
  // Without NCCL, a GPU or a launcher: which of them is missing depends on where this runs.
  ProgramResult const result = SmallRunFile{}.run("--ranks nccl");
  REQUIRE(result.exit_code != 0);
  REQUIRE(result.output.empty());
  std::string const problem = result.errors.substr(0, result.errors.find("(see "));
  REQUIRE(std::count(problem.begin(), problem.end(), '\n') == 1);
  REQUIRE_THAT(result.errors, Contains("built without NCCL") || Contains("--ranks nccl: "));
}

}  // namespace
}  // namespace stagecraft::exec_run_test
