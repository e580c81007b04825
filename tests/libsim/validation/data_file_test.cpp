#include "libsim/validation/data_file.hpp"

#include <catch2/catch.hpp>
#include <string>

#include "libsim/run/config_files.hpp"

namespace stagecraft::data_file_test {
namespace {

constexpr char const* folder = STAGECRAFT_SOURCE_DIR "/configs/paper/";

RunVariants base() { return load_run_variants(std::string{folder} + "175b-present.yaml", {}); }

/// A data file in the folder of the paper's runs.
DataFile file_of(std::string const& text) {
  return DataFile{text, std::filesystem::path{folder} / "f.csv"};
}

/// What is wrong with a file, without the name of its folder.
std::string refusal(std::string const& text, RunVariants const& runs) {
  try {
    file_of(text).check(runs);
    return "none";
  } catch (ConfigError const& error) {
    std::string message = error.what();
    for (std::size_t at = 0; (at = message.find(folder)) != std::string::npos;) {
      message.erase(at, std::string{folder}.size());
    }
    return message;
  }
}

std::string first_problem(DataFile const& file, std::size_t row) {
  DataRow const result = file.row(row, base());
  REQUIRE_FALSE(result.run);
  REQUIRE_FALSE(result.problems.empty());
  return to_string(result.problems.front()).substr(std::string{folder}.size());
}

}  // namespace

TEST_CASE("a row sets the keys of its columns, and an empty cell leaves the value of the base",
          "[validation]") {
  DataFile const file = file_of(
      "id,recompute,parallel.sequence,schedule,parallel.interleave,layout,"
      "measured.iteration_seconds\n"
      "a,full,false,1f1b,1,\"{first: 11, last: 13}\",18.13\nb,,,,,,\n");
  RunConfig const a = file.row(0, base()).run.value();
  RunConfig const expected =
      load_run_config(std::string{folder} + "175b-present.yaml",
                      {"recompute=full", "parallel.sequence=false", "schedule=1f1b",
                       "parallel.interleave=1", "layout={first: 11, last: 13}"});
  REQUIRE(a.training == expected.training);
  REQUIRE_FALSE(a.training.parallel.sequence);
  REQUIRE(file.row(0, base()).measured.iteration_seconds == 18.13);
  DataRow const b = file.row(1, base());
  REQUIRE(b.run.value().training ==
          load_run_config(std::string{folder} + "175b-present.yaml", {}).training);
  REQUIRE_FALSE(b.measured.iteration_seconds);
}

TEST_CASE("the columns of measurements are read, with or without spaces", "[validation]") {
  DataRow const row = file_of(
                          "id,group,weight,measured.iteration_seconds,measured.reserved_bytes,"
                          "measured.allocated_bytes,measured.first_allocated_bytes,"
                          "measured.resident_bytes,measured.stage,measured.fits\n"
                          "x,y,2.5, 13.8 ,70000000000,6e10,5e10,1e10,7,true\n")
                          .row(0, base());
  REQUIRE(row.problems.empty());
  REQUIRE(row.measured.id == "x");
  REQUIRE(row.measured.group == "y");
  REQUIRE(row.measured.weight == 2.5);
  REQUIRE(row.measured.iteration_seconds == 13.8);
  REQUIRE(row.measured.reserved_bytes == 70'000'000'000);
  REQUIRE(row.measured.allocated_bytes == 60'000'000'000);
  REQUIRE(row.measured.first_allocated_bytes == 50'000'000'000);
  REQUIRE(row.measured.resident_bytes == 10'000'000'000);
  REQUIRE(row.measured.stage == 7);
  REQUIRE(row.measured.fits == true);
}

TEST_CASE("a section is set before the keys inside it, whatever the order of columns",
          "[validation]") {
  DataFile const file =
      file_of("model.layers,model,measured.fits\n24,../models/gpt3-175b.yaml,true\n");
  RunConfig const run = file.row(0, base()).run.value();
  REQUIRE(run.training.model.layers == 24);
  REQUIRE(run.training.model.hidden == 12288);
}

TEST_CASE("files that cells name are relative to the data file", "[validation]") {
  DataFile const file =
      file_of("system,measured.fits\n../systems/dgx-h100.yaml,true\nno-such-file.yaml,true\n");
  REQUIRE(file.row(0, base()).run.value().system.accelerator.name.find("H100") !=
          std::string::npos);
  REQUIRE(first_problem(file, 1).starts_with("f.csv:3:1: system: found '"));
}

TEST_CASE("a value that cannot be right is a problem of its row, at its cell", "[validation]") {
  DataFile const file = file_of(
      "id,parallel.tensor,measured.iteration_seconds,measured.fits,measured.stage\n"
      "a,eight,1,,\nb,5,1,,\nc,8,fast,,\nd,8,0,,\ne,8,-1,,\nf,8,1e999,,\ng,8,14,false,\n"
      "h,8,,maybe,\ni,8,14,,8\nj,8,nan,,\n");
  REQUIRE(first_problem(file, 0) ==
          "f.csv:2:3: parallel.tensor: found 'eight'; accepted: a whole number from 1 to 1000000");
  REQUIRE(first_problem(file, 1).starts_with("f.csv:3:3: parallel.tensor: found '5'; accepted: "));
  std::string const seconds = "'; accepted: a number of seconds above 0, or an empty cell";
  std::string const key = "measured.iteration_seconds: found '";
  REQUIRE(first_problem(file, 2) == "f.csv:4:5: " + key + "fast" + seconds);
  REQUIRE(first_problem(file, 3) == "f.csv:5:5: " + key + "0" + seconds);
  REQUIRE(first_problem(file, 4) == "f.csv:6:5: " + key + "-1" + seconds);
  REQUIRE(first_problem(file, 5) == "f.csv:7:5: " + key + "1e999" + seconds);
  REQUIRE(first_problem(file, 6) ==
          "f.csv:8:5: measured.iteration_seconds: found a time of a run that did not fit "
          "(measured.fits is false); accepted: an empty cell, or measured.fits true");
  REQUIRE(first_problem(file, 7) ==
          "f.csv:9:6: measured.fits: found 'maybe'; accepted: true, false, or an empty cell");
  REQUIRE(first_problem(file, 8) ==
          "f.csv:10:9: measured.stage: found '8'; accepted: a stage below parallel.pipeline (8)");
  REQUIRE(first_problem(file, 9) == "f.csv:11:5: " + key + "nan" + seconds);
}

TEST_CASE("a column that is no key is refused, with the nearest one", "[validation]") {
  REQUIRE(refusal("id,parallel.tensr,measured.fits\na,,true\n", base()) ==
          "f.csv:1:4: found the column 'parallel.tensr', which is an unknown key; accepted: in "
          "parallel: tensor, pipeline, interleave, data, sequence, expert, expert_tensor, "
          "expert_overlap, shared_expert_overlap, dispatch_multiprocessors, "
          "context, context_method, "
          "overlap_gradients, "
          "gradient_bucket; did you mean 'tensor'?");
  REQUIRE(refusal("grop,measured.fits\na,true\n", base()).ends_with("did you mean 'group'?"));
  REQUIRE(refusal("measured.iteration_second,measured.fits\n1,true\n", base())
              .ends_with("did you mean 'measured.iteration_seconds'?"));
  REQUIRE(refusal("batsh.micro,measured.fits\n1,true\n", base()).ends_with("mean 'batch'?"));
}

TEST_CASE("a file without measurements, with a column twice or without a name is refused",
          "[validation]") {
  REQUIRE(refusal("id,parallel.tensor\na,8\n", base()) ==
          "f.csv:1:1: found no column with measured values; accepted: at least one of "
          "measured.iteration_seconds, measured.reserved_bytes, measured.allocated_bytes, "
          "measured.first_allocated_bytes, measured.resident_bytes, measured.fits");
  REQUIRE(refusal("batch.micro,batch.micro,measured.fits\n1,1,true\n", base()) ==
          "f.csv:1:13: batch.micro: found a second column; accepted: each column once");
  REQUIRE(refusal("id,,measured.fits\n1,1,true\n", base())
              .starts_with("f.csv:1:4: found '' as the name of a column; accepted: "));
}

TEST_CASE("a key that neither a column nor the base has is the file's fault", "[validation]") {
  RunVariants const empty = load_run_variants(std::nullopt, {});
  REQUIRE(refusal("model,parallel.tensor,measured.fits\n../models/gpt3-175b.yaml,8,true\n", empty)
              .starts_with("f.csv:1:1: system: missing; accepted: "));
  RunVariants const wrong =
      load_run_variants(std::string{folder} + "175b-present.yaml", {"batch.micro=many"});
  REQUIRE(refusal("parallel.tensor,measured.fits\n8,true\n", wrong)
              .starts_with("--set batch.micro=many: batch.micro: found 'many'"));
  REQUIRE(refusal("batch.micro,measured.fits\n1,true\n", wrong) == "none");
}

}  // namespace stagecraft::data_file_test
