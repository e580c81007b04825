#include "libsim/report/pipeline_picture.hpp"

#include <algorithm>
#include <catch2/catch.hpp>
#include <sstream>
#include <vector>

#include "libsim/engine/player/schedule_timeline.hpp"
#include "libsim/schedule/schedule_layout.hpp"

namespace stagecraft::pipeline_picture_test {

namespace {

PlayedOrder played(ScheduleShape const& shape, ChunkCosts const& costs = {}) {
  return play_schedule(make_pipeline_schedule(shape), costs);
}

std::vector<std::string> lines_of(std::string const& text) {
  std::istringstream stream{text};
  std::vector<std::string> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(line);
  return lines;
}

/// Columns on a terminal: UTF-8 characters, all of them one column wide here.
std::size_t columns(std::string const& line) {
  return static_cast<std::size_t>(std::count_if(
      line.begin(), line.end(), [](char c) { return (static_cast<unsigned char>(c) >> 6) != 2; }));
}

std::string without_escapes(std::string const& text) {
  std::string plain;
  for (std::size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\x1b') {
      at = text.find('m', at);
    } else {
      plain += text[at];
    }
  }
  return plain;
}

}  // namespace

TEST_CASE("1F1B on two stages is drawn as one would by hand, two columns per forward") {
  REQUIRE(draw_pipeline(played({ScheduleKind::one_f_one_b, 2, 2, 1, 0, P2p::blocking}), {}) ==
          "time     0                9\n"
          "stage 0 │0░1░····0▓▓▓··1▓▓▓\n"
          "stage 1 │··0░0▓▓▓1░1▓▓▓····\n"
          "0░ forward and 0▓ backward of microbatch 0, · idle\n");
}

TEST_CASE("chunks have letters, small in the forward and capital in the backward") {
  // Three columns a unit. Stage 1 turns microbatch 0 round at 4; stage 0, all of whose forwards are
  // warm-up, waits for it until 6, and for microbatch 1 from 8 to 9.
  REQUIRE(draw_pipeline(played({ScheduleKind::interleaved, 2, 2, 2, 0, P2p::blocking}), {}) ==
          "time     0                                          15\n"
          "stage 0 │0a░1a░0b░1b░······0B▓▓▓▓···1B▓▓▓▓0A▓▓▓▓1A▓▓▓▓\n"
          "stage 1 │···0a░1a░0b░0B▓▓▓▓1b░1B▓▓▓▓0A▓▓▓▓1A▓▓▓▓······\n"
          "0a░ forward and 0A▓ backward of microbatch 0 in chunk 0 (b: chunk 1), · idle\n");
}

TEST_CASE("numbers that do not fit are left out before forward and backward look alike") {
  // 40 columns leave 31 for 9 microbatches of 3 and a bubble of 3: one column a unit.
  std::string const picture =
      draw_pipeline(played({ScheduleKind::one_f_one_b, 2, 9, 1, 0, P2p::blocking}), {.width = 40});
  REQUIRE(lines_of(picture)[1] == "stage 0 │░░··0▓░1▓░2▓░3▓░4▓░5▓░6▓░7▓·8▓");
  REQUIRE(lines_of(picture)[2] == "stage 1 │·░0▓░1▓░2▓░3▓░4▓░5▓░6▓░7▓░8▓··");
}

TEST_CASE("a picture keeps to its width and says when it ends early") {
  int const width = GENERATE(40, 57, 100, 213);
  for (ScheduleShape const& shape :
       {ScheduleShape{ScheduleKind::gpipe, 12, 40, 1, 0, P2p::blocking},
        ScheduleShape{ScheduleKind::one_f_one_b, 3, 4, 1, 0, P2p::blocking},
        ScheduleShape{ScheduleKind::interleaved, 4, 16, 3, 8, P2p::overlapped}}) {
    PlayedOrder const timeline = played(shape, {1, 2, 0.25});
    std::vector<std::string> const lines = lines_of(draw_pipeline(timeline, {.width = width}));
    auto const rows = static_cast<std::size_t>(shape.stages);
    for (std::size_t i = 0; i <= rows; ++i) {
      REQUIRE(columns(lines[i]) <= static_cast<std::size_t>(width));
      REQUIRE(columns(lines[i]) == columns(lines[0]));
    }
    // One column a unit of time is the least; the label "stage 12 |" takes 9, or 10.
    double const room = width - (shape.stages > 10 ? 10 : 9);
    bool const fits = timeline.in_units(timeline.makespan) <= room;
    bool const says_cut = lines[rows + 1].rfind("cut at ", 0) == 0;
    CAPTURE(width, shape.stages, lines[rows + 1]);
    REQUIRE(says_cut == !fits);
  }
}

TEST_CASE("colour paints every cell and idle time stays unpainted") {
  PlayedOrder const timeline = played({ScheduleKind::one_f_one_b, 2, 2, 1, 0, P2p::blocking});
  std::string const plain = draw_pipeline(timeline, {});
  std::string const coloured = draw_pipeline(timeline, {.colour = Colour::ansi});
  REQUIRE(plain.find('\x1b') == std::string::npos);
  // Cells touch without shade: F0 and F1 share a background, then idle time.
  REQUIRE(lines_of(coloured)[1].rfind("stage 0 │\x1b[30;48;5;117m0 1 \x1b[0m····\x1b[30;48;5;",
                                      0) == 0);
  REQUIRE(lines_of(without_escapes(coloured))[1] == "stage 0 │0 1 ····0   ··1   ");
}

TEST_CASE("a computation too short for a column is announced") {
  PlayedOrder const timeline =
      played({ScheduleKind::gpipe, 2, 2, 1, 0, P2p::blocking}, {1, 0.01, 0});
  REQUIRE_THAT(draw_pipeline(timeline, {}), Catch::Contains("may be missing"));
  // At the least scale the shortest computation still has its column.
  REQUIRE_THAT(
      draw_pipeline(played({ScheduleKind::one_f_one_b, 2, 30, 1, 0, P2p::blocking}), {.width = 40}),
      !Catch::Contains("may be missing"));
}

}  // namespace stagecraft::pipeline_picture_test
