#include <array>
#include <catch2/catch.hpp>
#include <chrono>
#include <thread>

#include "libexec/comm/thread_world.hpp"

namespace stagecraft::mailboxes_test {
namespace {

class StillClock : public JobClock {
 public:
  bool is_virtual() const override { return false; }
  std::int64_t iteration() const override { return 0; }
  SimTime now() const override { return SimTime{7}; }
};

using Text = std::array<char, 6>;

Message end_of(Transfer::End end, Text& text) {
  return {.end = end, .number = 1, .data = text.data(), .bytes = text.size()};
}
Message sent(Text& text) { return end_of(Transfer::End::send, text); }
Message received(Text& text) { return end_of(Transfer::End::receive, text); }

TEST_CASE("a message arrives whichever end comes first", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, GENERATE(false, true), transport, clock, health};
  Text from{"hello"};
  Text to{};
  if (GENERATE(false, true)) {
    boxes.post(sent(from));
    boxes.post(received(to));
  } else {
    boxes.post(received(to));
    boxes.post(sent(from));
  }
  boxes.wait(sent(from));
  REQUIRE(boxes.wait(received(to)).end == SimTime{7});
  REQUIRE(to == from);
}

TEST_CASE("a buffered send may be overwritten before its receiver has posted", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, true, transport, clock, health};
  Text from{"hello"};
  Text to{};
  boxes.post(sent(from));
  boxes.wait(sent(from));
  from = {"other"};
  boxes.post(received(to));
  boxes.wait(received(to));
  REQUIRE(to == Text{"hello"});
}

TEST_CASE("a box serves one iteration after the other", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, false, transport, clock, health};
  Text to{};
  for (Text from : {Text{"first"}, Text{"again"}}) {
    boxes.post(sent(from));
    boxes.post(received(to));
    boxes.wait(received(to));
    boxes.wait(sent(from));
    REQUIRE(to == from);
  }
}

TEST_CASE("ends that disagree about the size of a message are refused", "[comm]") {
  StillClock const clock;
  JobHealth const health;
  HostTransport transport;
  ThreadMailboxes boxes{2, false, transport, clock, health};
  Text from{};
  Text to{};
  boxes.post(sent(from));
  Message shorter = received(to);
  shorter.bytes = 2;
  REQUIRE_THROWS_AS(boxes.post(shorter), std::logic_error);
}

TEST_CASE("who waits for a message of a rank that has failed stops waiting", "[comm]") {
  StillClock const clock;
  JobHealth health;
  HostTransport transport;
  ThreadMailboxes boxes{2, false, transport, clock, health};
  Text to{};
  boxes.post(received(to));
  std::jthread const other{[&] {
    std::this_thread::sleep_for(std::chrono::milliseconds{20});
    health.fail(RankId{3}, "gone");
  }};
  REQUIRE_THROWS_AS(boxes.wait(received(to)), PeerFailure);
}

}  // namespace
}  // namespace stagecraft::mailboxes_test
