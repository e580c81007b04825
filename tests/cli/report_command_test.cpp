#include <catch2/catch.hpp>
#include <iomanip>
#include <sstream>

#include "tests/cli/command_results.hpp"
#include "tests/cli/run_program.hpp"
#include "tests/cli/trace_folder.hpp"

namespace stagecraft::report_command_test {

using Catch::Contains;
using Catch::StartsWith;

TEST_CASE("report writes one page with the summary in words, also of several traces") {
  TraceFolder folder;
  folder.record("present.h5", "175b-present");
  folder.record("full.h5", "175b-full");
  ProgramResult const one = run_stagecraft("report " + folder.path("present.h5") + " -o " +
                                           folder.path("one.html") + " --title 'a < b'");
  REQUIRE(one.exit_code == 0);
  REQUIRE(one.output.empty());
  REQUIRE(one.errors.empty());
  std::string const page = folder.text("one.html");
  REQUIRE_THAT(page, StartsWith("<!doctype html>") && Contains("<title>a &lt; b</title>"));
  // The numbers of `simulate`: iteration, fullest stage, capacity.
  REQUIRE_THAT(page, Contains("14.00\u00a0s") && Contains("60.13\u00a0GiB") &&
                         Contains("Of its 80.00\u00a0GiB"));
  // And what simulate --json says of the stage with the least margin: 63.06 GiB on the device.
  auto const stages = json_of("simulate " + paper_run("175b-present") + " --json").at("stages");
  double const gib = std::int64_t{1} << 30;
  std::ostringstream device, margin;
  device << std::fixed << std::setprecision(2) << stages[0].at("device_bytes").get<double>() / gib;
  margin << std::fixed << std::setprecision(2) << stages[0].at("margin_bytes").get<double>() / gib;
  REQUIRE_THAT(page,
               Contains("On the device</dt><dd class=\"value\">" + device.str() + "\u00a0GiB") &&
                   Contains(margin.str() + "\u00a0GiB are left"));
  // The line of `simulate` that begins with the interval.
  std::string const printed = run_stagecraft("simulate " + paper_run("175b-present")).output;
  std::size_t const begin = printed.find("80 % interval ");
  REQUIRE(begin != std::string::npos);
  REQUIRE_THAT(page, Contains(printed.substr(begin, printed.find('\n', begin) - begin) + "."));
  REQUIRE(run_stagecraft("report " + folder.path("present.h5") + " " + folder.path("full.h5") +
                         " -o " + folder.path("two.html"))
              .exit_code == 0);
  REQUIRE_THAT(folder.text("two.html"),
               Contains("B&#39;s iteration") || Contains("B's iteration is"));
}

TEST_CASE(
    "a report of the largest iteration of the paper takes less than 5 MB, the same bytes each "
    "time") {
  TraceFolder folder;
  folder.record("t.h5", "1t-present");
  REQUIRE(
      run_stagecraft("report " + folder.path("t.h5") + " -o " + folder.path("a.html")).exit_code ==
      0);
  REQUIRE(run_stagecraft("report " + folder.path("t.h5") + " -o " + folder.path("b.html") +
                         " --title t")
              .exit_code == 0);
  REQUIRE(folder.text("a.html").size() < 5'000'000);
  REQUIRE(folder.text("a.html") == folder.text("b.html"));
}

TEST_CASE("report says what it does not accept, and what it cannot read or write") {
  TraceFolder folder;
  folder.record("t.h5", "22b-present");
  std::string const trace = folder.path("t.h5");
  ProgramResult const none = run_stagecraft("report -o x.html");
  REQUIRE(none.exit_code == 2);
  REQUIRE_THAT(none.errors, Contains("found no file; accepted: one to 8 traces"));
  REQUIRE(run_stagecraft("report " + trace).exit_code == 2);
  ProgramResult const itself = run_stagecraft("report " + trace + " -o " + trace);
  REQUIRE(itself.exit_code == 2);
  REQUIRE_THAT(itself.errors, Contains("which is read"));
  folder.write("text.h5", "no trace\n");
  ProgramResult const text = run_stagecraft("report " + trace + " " + folder.path("text.h5") +
                                            " -o " + folder.path("x.html"));
  REQUIRE(text.exit_code == 2);
  REQUIRE_THAT(text.errors, Contains("text.h5: is not an HDF5 file"));
  ProgramResult const full = run_stagecraft("report " + trace + " -o " + folder.path("x.html"),
                                            "ulimit -f 16; trap '' XFSZ;");
  REQUIRE(full.exit_code == 1);
  REQUIRE_THAT(full.errors, Contains("could not write "));
  REQUIRE(folder.files() == 2);
}

}  // namespace stagecraft::report_command_test
