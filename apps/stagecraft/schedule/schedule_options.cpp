#include "apps/stagecraft/schedule/schedule_options.hpp"

#include "libsim/schedule/generators/order_search.hpp"
#include "libsim/schedule/orders/order_kind.hpp"
#include "libsim/training/training_names.hpp"

namespace stagecraft {

std::vector<Option> schedule_options() {
  return {{.name = "schedule",
           .value = Value::word_of<OrderKind>(),
           .description = "the order of a stage's forwards and backwards"},
          {.name = "pipeline",
           .letter = 'p',
           .value = Value::text("P"),
           .description = "pipeline stages"},
          {.name = "microbatches",
           .letter = 'n',
           .value = Value::text("N"),
           .description = "microbatches per iteration"},
          {.name = "chunks",
           .letter = 'm',
           .value = Value::text("M"),
           .description = "interleaved kinds: chunks per stage (default: 1)"},
          {.name = "group",
           .value = Value::text("G"),
           .description = "interleaved: microbatches per group (default: P)"},
          {.name = "expert-overlap",
           .description = "interleaved: each steady forward overlaps a backward, behind which "
                          "experts communicate"},
          {.name = "recompute-chunks",
           .value = Value::text("K"),
           .fallback = "0",
           .description = "group_interleaved: the first K chunks of a stage recompute"},
          {.name = "variant",
           .value = Value::word_of<OrderVariant>(),
           .fallback = "fixed",
           .description = "zbv: by a fixed rule, or fitted to costs and memory"},
          {.name = "fuse-adjacent",
           .value = Value::word({"true", "false"}),
           .description = "schedules that split backwards: true, to run an input gradient right "
                          "before its weight gradient as one whole backward; false, to split all "
                          "(default: as the schedule's public code does)"},
          {.name = "memory",
           .value = Value::text("F,I,W"),
           .fallback = "1,0,-1",
           .description =
               "zb_auto, zbv, searched: how a forward, input gradient and weight gradient change "
               "what a stage holds"},
          {.name = "memory-limit",
           .value = Value::text("X"),
           .description =
               "zb_auto, zbv, v_auto, searched: what a stage may hold, in forwards (default: as "
               "1F1B, P, or 2P of two chunks)"},
          {.name = "seed",
           .value = Value::text("S"),
           .fallback = "1",
           .description = "searched: of the random changes"},
          {.name = "iterations",
           .value = Value::text("N"),
           .fallback = "100000",
           .description = "searched: changes to try"},
          {.name = "seconds",
           .value = Value::text("T"),
           .fallback = "10",
           .description = "searched: a cap on the time for them"},
          {.name = "order",
           .value = Value::file("FILE", {"json"}),
           .description = "--schedule order: the file with the order, as --json prints it"},
          {.name = "forward",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of a chunk's forward"},
          {.name = "input-gradient",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of the part of a chunk's backward that other chunks wait for"},
          {.name = "weight-gradient",
           .value = Value::text("COST"),
           .fallback = "1",
           .description = "duration of the rest of a chunk's backward"},
          {.name = "backward",
           .value = Value::text("COST"),
           .description = "duration of a chunk's whole backward (default: the sum of its parts)"},
          {.name = "transfer",
           .value = Value::text("COST"),
           .fallback = "0",
           .description = "duration of a message, from its start to its arrival"},
          {.name = "p2p",
           .value = Value::word_of<P2p>(),
           .description = "blocking: a stage waits until its messages are over (default of gpipe, "
                          "1f1b and interleaved); overlapped: messages run beside computation"}};
}

}  // namespace stagecraft
