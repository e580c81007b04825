#include "libsim/sweep/sweep_journal.hpp"

#include <catch2/catch.hpp>
#include <cmath>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "libsim/host/file_error.hpp"
#include "tests/libsim/sweep/sweep_files.hpp"

namespace stagecraft::sweep_journal_test {
namespace {

JournalHeader const header{"1.0 (commit x)", "abc", "1/1"};

SweepRow row(std::int64_t point) {
  SweepRow result{
      .point = point,
      .is_valid = point % 3 != 0,
      .message = point % 3 == 0 ? "because, \"so\"\n" : "",
      .plan = std::string(64, 'f'),
      .integers = std::vector<std::int64_t>(integer_columns().size(), point * 7),
      .reals = std::vector<double>(real_columns().size(), 0.1 * static_cast<double>(point))};
  result.reals.front() = no_real();
  return result;
}

std::vector<SweepRow> batch(std::int64_t number) { return {row(2 * number), row(2 * number + 1)}; }

std::vector<std::int64_t> points_in(SweepJournal const& journal) {
  std::vector<std::int64_t> points;
  journal.for_each([&](SweepRow&& found) {
    SweepRow const expected = row(found.point);
    REQUIRE(found.is_valid == expected.is_valid);
    REQUIRE(found.message == expected.message);
    REQUIRE(found.plan == expected.plan);
    REQUIRE(found.integers == expected.integers);
    REQUIRE(std::isnan(found.reals.front()));
    REQUIRE(std::vector<double>(found.reals.begin() + 1, found.reals.end()) ==
            std::vector<double>(expected.reals.begin() + 1, expected.reals.end()));
    points.push_back(found.point);
  });
  return points;
}

std::string bytes_of(std::filesystem::path const& file) {
  std::ifstream stream{file, std::ios::binary};
  return {std::istreambuf_iterator<char>{stream}, {}};
}

std::string refusal_of(std::filesystem::path const& path,
                       JournalHeader const& wanted,
                       SweepJournal::Open open) {
  try {
    SweepJournal const journal{path, wanted, open};
  } catch (InputError const& error) {
    return error.what();
  }
  return {};
}

}  // namespace

TEST_CASE("a journal gives back the rows it was given", "[sweep]") {
  SweepFolder const folder;
  SweepJournal journal{folder.path("j"), header, SweepJournal::Open::created};
  REQUIRE(journal.rows() == 0);
  journal.append(0, batch(0));
  journal.append(5, batch(5));
  REQUIRE(journal.rows() == 4);
  REQUIRE(journal.has(0));
  REQUIRE(journal.has(5));
  REQUIRE_FALSE(journal.has(3));
  REQUIRE_FALSE(journal.has(1'000'000));
  REQUIRE(points_in(journal) == std::vector<std::int64_t>{0, 1, 10, 11});
}

TEST_CASE("a journal cut anywhere goes on with the batches that are whole", "[sweep]") {
  SweepFolder const folder;
  std::filesystem::path const path = folder.path("j");
  std::vector<std::size_t> sizes;
  {
    SweepJournal journal{path, header, SweepJournal::Open::created};
    sizes.push_back(bytes_of(path).size());
    for (std::int64_t number = 0; number < 3; ++number) {
      journal.append(number, batch(number));
      sizes.push_back(bytes_of(path).size());
    }
  }
  std::string const whole = bytes_of(path);
  for (std::size_t size = 0; size <= whole.size(); ++size) {
    folder.write("j", whole.substr(0, size));
    SweepJournal journal{path, header, SweepJournal::Open::resumed};
    std::int64_t kept = 0;
    while (kept < 3 && sizes[static_cast<std::size_t>(kept) + 1] <= size) ++kept;
    REQUIRE(journal.rows() == 2 * kept);
    for (std::int64_t number = kept; number < 3; ++number) journal.append(number, batch(number));
    REQUIRE(points_in(journal) == std::vector<std::int64_t>{0, 1, 2, 3, 4, 5});
  }
}

TEST_CASE("a damaged record and all behind it are cut off", "[sweep]") {
  SweepFolder const folder;
  std::filesystem::path const path = folder.path("j");
  std::size_t one = 0;
  {
    SweepJournal journal{path, header, SweepJournal::Open::created};
    journal.append(0, batch(0));
    one = bytes_of(path).size();
    journal.append(1, batch(1));
  }
  std::string bytes = bytes_of(path);
  bytes[one + 20] = static_cast<char>(bytes[one + 20] ^ 1);
  folder.write("j", bytes);
  SweepJournal const journal{path, header, SweepJournal::Open::resumed};
  REQUIRE(points_in(journal) == std::vector<std::int64_t>{0, 1});
  REQUIRE(bytes_of(path).size() == one);
}

TEST_CASE("a journal is refused where it is there already, or another's", "[sweep]") {
  SweepFolder const folder;
  std::filesystem::path const path = folder.path("j");
  { SweepJournal const journal{path, header, SweepJournal::Open::created}; }
  using Catch::Contains;
  REQUIRE_THAT(refusal_of(path, header, SweepJournal::Open::created), Contains("--resume"));
  REQUIRE_THAT(refusal_of(path, {header.program, "abd", header.shard}, SweepJournal::Open::resumed),
               Contains("another sweep"));
  REQUIRE_THAT(refusal_of(path, {header.program, header.sweep, "2/2"}, SweepJournal::Open::resumed),
               Contains("shard 1/1"));
  REQUIRE_THAT(
      refusal_of(path, {"2.0 (commit x)", header.sweep, "1/1"}, SweepJournal::Open::resumed),
      Contains("another version"));
  folder.write("k", "not a journal, but long enough to be one; " + std::string(200, '.'));
  REQUIRE_THAT(refusal_of(folder.path("k"), header, SweepJournal::Open::resumed),
               Contains("something else"));
}

TEST_CASE("two cannot be at work on one journal", "[sweep]") {
  SweepFolder const folder;
  SweepJournal const journal{folder.path("j"), header, SweepJournal::Open::created};
  REQUIRE_THROWS_WITH((SweepJournal{folder.path("j"), header, SweepJournal::Open::resumed}),
                      Catch::Contains("another process"));
}

}  // namespace stagecraft::sweep_journal_test
