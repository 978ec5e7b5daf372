// A toy tensor library that trains a small net on gpumem: tensors, matrix product, bias, ReLU, cross entropy, a tape for
// gradients, SGD with momentum. It runs anywhere: the device is the host, and its work is done by the calling thread;
// batches come in on a stream of their own, one ahead of use.
//
//   c++ -std=c++17 -O2 train.cpp $(pkg-config --cflags --libs gpumem) -pthread -o train && ./train
//
// What it shows: tags (weights live across steps, activations come back every step, workspace lives within one op), memory
// in order of streams, and that after a few steps training asks the device for nothing more. It checks what it says: that
// the loss falls, that a step after warm-up makes no device call, that nothing is left over.

#include <gpumem.hpp>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace toy {

using gpumem::precision;
using gpumem::tier;

void check(bool holds, const char *what) {
    if (holds) return;
    std::fprintf(stderr, "train: not so: %s\n", what);
    std::exit(1);
}

// ---- Memory

/// The device and its memory. Everything else here gets its bytes from `pool`.
struct machine {
    gpumem::device device;
    gpumem::pool pool;
    gpumem::stream copies;

    explicit machine(const gpumem::config &config) : device(config), pool(device), copies(device, pool) {}
};

gpumem::tag tag_of(tier tier, const char *op) {
    return {tier, precision::fp32, gpumem::op_number(op), 0};
}

// ---- Tensors

/// A matrix of floats on the device. Copies share it; the last one frees it.
class tensor {
public:
    tensor() = default;
    /// Not initialised; tagged with what is in force.
    tensor(machine &on, std::size_t rows, std::size_t columns, gpumem::stream_ref stream = gpumem::default_stream)
        : held_(std::make_shared<held>()) {
        held_->on = &on;
        held_->rows = rows;
        held_->columns = columns;
        held_->values = on.pool.make_block(bytes(), stream);
    }

    std::size_t rows() const { return held_->rows; }
    std::size_t columns() const { return held_->columns; }
    std::size_t size() const { return rows() * columns(); }
    std::size_t bytes() const { return size() * sizeof(float); }
    float *values() const { return static_cast<float *>(held_->values.data()); }
    float *row(std::size_t i) const { return values() + i * columns(); }

    /// Made and set to zero when it is first asked for.
    float *gradient() const {
        if (!held_->gradient) {
            static const gpumem::tag tag = tag_of(tier::cyclic, "gradient");
            held_->gradient = held_->on->pool.make_block(bytes(), tag);
            std::memset(held_->gradient.data(), 0, bytes());
        }
        return static_cast<float *>(held_->gradient.data());
    }
    void drop_gradient() const { held_->gradient.free(); }

private:
    struct held {
        machine *on = nullptr;
        std::size_t rows = 0, columns = 0;
        gpumem::block values, gradient;
    };
    std::shared_ptr<held> held_;
};

// ---- Kernels

/// c += a * b, for row-major matrices: a is n by k, b is k by m.
void add_product(const float *a, const float *b, float *c, std::size_t n, std::size_t k, std::size_t m) {
    for (std::size_t i = 0; i < n; ++i) {
        for (std::size_t l = 0; l < k; ++l) {
            const float factor = a[i * k + l];
            for (std::size_t j = 0; j < m; ++j) c[i * m + j] += factor * b[l * m + j];
        }
    }
}

/// A transposed copy in workspace, which is freed with the block.
gpumem::block transposed(machine &on, const float *from, std::size_t rows, std::size_t columns) {
    static const gpumem::tag workspace = tag_of(tier::temporary, "transpose");
    gpumem::block block = on.pool.make_block(rows * columns * sizeof(float), workspace);
    auto *to = static_cast<float *>(block.data());
    for (std::size_t i = 0; i < rows; ++i) {
        for (std::size_t j = 0; j < columns; ++j) to[j * rows + i] = from[i * columns + j];
    }
    return block;
}

// ---- Ops with gradients

/// Does ops and notes how to undo them. What a note holds lives until `backward` has come by it.
class tape {
public:
    explicit tape(machine &on) : on_(on) {}

    tensor product(const tensor &a, const tensor &b) {
        static const gpumem::tag tag = tag_of(tier::cyclic, "matmul");
        const gpumem::tag_scope scope(tag);
        const tensor c(on_, a.rows(), b.columns());
        std::fill_n(c.values(), c.size(), 0.0f);
        add_product(a.values(), b.values(), c.values(), a.rows(), a.columns(), b.columns());
        steps_.push_back([&on = on_, a, b, c] {
            const gpumem::block b_turned = transposed(on, b.values(), b.rows(), b.columns());
            add_product(c.gradient(), static_cast<const float *>(b_turned.data()), a.gradient(), c.rows(), c.columns(),
                        b.rows());
            const gpumem::block a_turned = transposed(on, a.values(), a.rows(), a.columns());
            add_product(static_cast<const float *>(a_turned.data()), c.gradient(), b.gradient(), a.columns(), a.rows(),
                        c.columns());
        });
        return c;
    }

    /// Adds a row to each row.
    tensor add_row(const tensor &a, const tensor &row) {
        static const gpumem::tag tag = tag_of(tier::cyclic, "bias");
        const gpumem::tag_scope scope(tag);
        const tensor c(on_, a.rows(), a.columns());
        for (std::size_t i = 0; i < a.rows(); ++i) {
            for (std::size_t j = 0; j < a.columns(); ++j) c.row(i)[j] = a.row(i)[j] + row.values()[j];
        }
        steps_.push_back([a, row, c] {
            for (std::size_t i = 0; i < c.size(); ++i) {
                a.gradient()[i] += c.gradient()[i];
                row.gradient()[i % c.columns()] += c.gradient()[i];
            }
        });
        return c;
    }

    tensor relu(const tensor &a) {
        static const gpumem::tag tag = tag_of(tier::cyclic, "relu");
        const gpumem::tag_scope scope(tag);
        const tensor c(on_, a.rows(), a.columns());
        std::transform(a.values(), a.values() + a.size(), c.values(), [](float x) { return std::max(x, 0.0f); });
        steps_.push_back([a, c] {
            for (std::size_t i = 0; i < c.size(); ++i) {
                if (c.values()[i] > 0) a.gradient()[i] += c.gradient()[i];
            }
        });
        return c;
    }

    /// The mean over rows of -log of what softmax gives the row's label, which is a float in a matrix of one column.
    float cross_entropy(const tensor &scores, const tensor &labels) {
        static const gpumem::tag tag = tag_of(tier::cyclic, "softmax");
        const gpumem::tag_scope scope(tag);
        const tensor chances(on_, scores.rows(), scores.columns());
        double loss = 0;
        for (std::size_t i = 0; i < scores.rows(); ++i) {
            const float *from = scores.row(i);
            float *to = chances.row(i);
            const float highest = *std::max_element(from, from + scores.columns());
            float sum = 0;
            for (std::size_t j = 0; j < scores.columns(); ++j) sum += to[j] = std::exp(from[j] - highest);
            for (std::size_t j = 0; j < scores.columns(); ++j) to[j] /= sum;
            loss -= std::log(static_cast<double>(to[static_cast<std::size_t>(labels.values()[i])]) + 1e-12);
        }
        steps_.push_back([scores, labels, chances] {
            const float share = 1.0f / static_cast<float>(scores.rows());
            for (std::size_t i = 0; i < scores.rows(); ++i) {
                float *gradient = scores.gradient() + i * scores.columns();
                for (std::size_t j = 0; j < scores.columns(); ++j) gradient[j] += share * chances.row(i)[j];
                gradient[static_cast<std::size_t>(labels.values()[i])] -= share;
            }
        });
        return static_cast<float>(loss / static_cast<double>(scores.rows()));
    }

    /// Undoes all ops, the last one first; each lets go of what it held.
    void backward() {
        while (!steps_.empty()) {
            steps_.back()();
            steps_.pop_back();
        }
    }

private:
    machine &on_;
    std::vector<std::function<void()>> steps_;
};

// ---- A net and its optimizer

/// Random numbers that are the same everywhere.
class dice {
public:
    /// From -1 to 1.
    float roll() {
        state_ = state_ * 6364136223846793005u + 1442695040888963407u;
        return static_cast<float>(state_ >> 40) / static_cast<float>(1 << 23) - 1.0f;
    }

private:
    std::uint64_t state_ = 42;
};

/// Layers with ReLU between them.
class net {
public:
    net(machine &on, const std::vector<std::size_t> &widths, dice &dice) {
        static const gpumem::tag tag = tag_of(tier::persistent, "weight");
        const gpumem::tag_scope scope(tag);
        for (std::size_t i = 0; i + 1 < widths.size(); ++i) {
            const tensor weight(on, widths[i], widths[i + 1]), bias(on, 1, widths[i + 1]);
            const float scale = std::sqrt(6.0f / static_cast<float>(widths[i]));
            std::generate_n(weight.values(), weight.size(), [&] { return scale * dice.roll(); });
            std::fill_n(bias.values(), bias.size(), 0.0f);
            weights_.push_back(weight);
            weights_.push_back(bias);
        }
    }

    tensor forward(tape &tape, tensor x) const {
        for (std::size_t i = 0; i < weights_.size(); i += 2) {
            x = tape.add_row(tape.product(x, weights_[i]), weights_[i + 1]);
            if (i + 2 < weights_.size()) x = tape.relu(x);
        }
        return x;
    }

    const std::vector<tensor> &weights() const { return weights_; }

private:
    std::vector<tensor> weights_;
};

/// Gradient descent with momentum.
class sgd {
public:
    sgd(machine &on, const net &net, float rate, float momentum) : weights_(net.weights()), rate_(rate), keep_(momentum) {
        static const gpumem::tag tag = tag_of(tier::persistent, "momentum");
        const gpumem::tag_scope scope(tag);
        for (const tensor &weight : weights_) {
            speeds_.emplace_back(on, weight.rows(), weight.columns());
            std::fill_n(speeds_.back().values(), weight.size(), 0.0f);
        }
    }

    void step() {
        for (std::size_t i = 0; i < weights_.size(); ++i) {
            float *value = weights_[i].values(), *speed = speeds_[i].values();
            const float *gradient = weights_[i].gradient();
            for (std::size_t j = 0; j < weights_[i].size(); ++j) {
                speed[j] = keep_ * speed[j] + gradient[j];
                value[j] -= rate_ * speed[j];
            }
            weights_[i].drop_gradient();
        }
    }

private:
    std::vector<tensor> weights_, speeds_;
    float rate_, keep_;
};

// ---- Data

struct batch {
    tensor inputs, labels;
};

/// Points on three spiral arms, and which arm each is on. Batches are copied by the device one ahead of use, on a stream
/// of their own.
class loader {
public:
    loader(machine &on, std::size_t points, std::size_t batch_rows, dice &dice)
        : on_(on), rows_(batch_rows), copied_(on.device, on.pool) {
        static const gpumem::tag tag = tag_of(tier::persistent, "data");
        const gpumem::tag_scope scope(tag);
        all_ = {tensor(on, points, 2), tensor(on, points, 1)};
        for (std::size_t i = 0; i < points; ++i) {
            const std::size_t arm = i % 3;
            const float radius = 0.05f + 0.95f * std::abs(dice.roll());
            const float angle = 4.0f * radius + 2.0944f * static_cast<float>(arm) + 0.1f * dice.roll();
            all_.inputs.row(i)[0] = radius * std::cos(angle);
            all_.inputs.row(i)[1] = radius * std::sin(angle);
            all_.labels.values()[i] = static_cast<float>(arm);
        }
        fetch();
    }

    const batch &all() const { return all_; }

    /// The batch that was on its way; the next one sets out.
    batch next() {
        // The host waits for the copies, and the pool hears of it.
        copied_.synchronize();
        on_.pool.event_synchronized(copied_.number());
        batch ready = std::move(coming_);
        fetch();
        return ready;
    }

private:
    void fetch() {
        static const gpumem::tag tag = tag_of(tier::cyclic, "batch");
        const gpumem::tag_scope scope(tag);
        coming_ = {tensor(on_, rows_, 2, on_.copies), tensor(on_, rows_, 1, on_.copies)};
        on_.device.copy(coming_.inputs.values(), all_.inputs.row(at_), coming_.inputs.bytes(), on_.copies);
        on_.device.copy(coming_.labels.values(), all_.labels.row(at_), coming_.labels.bytes(), on_.copies);
        on_.pool.record(copied_, on_.copies);
        at_ = (at_ + rows_) % (all_.inputs.rows() - rows_ + 1);
    }

    machine &on_;
    std::size_t rows_, at_ = 0;
    gpumem::event copied_;
    batch all_, coming_;
};

/// How many of the points are put on their arm.
double share_right(machine &on, const net &net, const batch &batch) {
    tape tape(on);
    const tensor scores = net.forward(tape, batch.inputs);
    std::size_t right = 0;
    for (std::size_t i = 0; i < scores.rows(); ++i) {
        const float *row = scores.row(i);
        const auto best = std::max_element(row, row + scores.columns()) - row;
        right += static_cast<std::size_t>(best) == static_cast<std::size_t>(batch.labels.values()[i]);
    }
    return static_cast<double>(right) / static_cast<double>(scores.rows());
}

// ---- Training

void train(machine &on) {
    constexpr int steps = 400, warm_up = 5;
    dice dice;
    loader data(on, 1536, 96, dice);
    net net(on, {2, 48, 48, 3}, dice);
    sgd optimizer(on, net, 0.05f, 0.9f);

    float first = 0, last = 0;
    std::uint64_t calls = 0, live = 0;
    for (int step = 0; step < steps; ++step) {
        {
            const batch batch = data.next();
            tape tape(on);
            const float loss = tape.cross_entropy(net.forward(tape, batch.inputs), batch.labels);
            tape.backward();
            optimizer.step();
            first = step < 20 ? first + loss / 20 : first;
            last = step >= steps - 20 ? last + loss / 20 : last;
            if (step % 80 == 0) std::printf("step %3d: loss %.3f\n", step, static_cast<double>(loss));
        }
        on.pool.step();
        const gpumem_statistics now = on.pool.statistics();
        if (step == warm_up) {
            calls = now.driver_calls;
            live = now.live.current_bytes;
        }
        if (step > warm_up) {
            check(now.driver_calls == calls, "a step after warm-up makes no device call");
            check(now.live.current_bytes == live, "what a step asks for is gone at its end");
        }
    }
    check(last < 0.3f * first, "the loss falls to less than a third");
    const double right = share_right(on, net, data.all());
    check(right > 0.9, "nine points in ten are put on their arm");
    std::printf("loss %.3f at first, %.3f at last; %.1f %% of the points are put right\n", static_cast<double>(first),
                static_cast<double>(last), 100 * right);
}

}  // namespace toy

int main() {
    try {
        gpumem::config config;
        config.device = "host";
        config.capacity_bytes = 64 << 20;
        toy::machine machine(config);
        toy::train(machine);

        const gpumem_statistics end = machine.pool.statistics();
        toy::check(end.live.current_bytes == 0, "nothing is left over");
        machine.pool.check();
        std::printf("%llu requests, %llu device calls; live at most %.2f MiB (weights and data %.2f), held %.2f MiB\n",
                    static_cast<unsigned long long>(end.allocs), static_cast<unsigned long long>(end.driver_calls),
                    static_cast<double>(end.live.peak_bytes) / 1048576,
                    static_cast<double>(end.tiers[2].peak_bytes) / 1048576,
                    static_cast<double>(end.reserved.peak_bytes) / 1048576);
        std::printf("half of all requests took at most %llu ns, 999 in 1000 at most %llu ns\n",
                    static_cast<unsigned long long>(end.alloc_ns.p50_ns),
                    static_cast<unsigned long long>(end.alloc_ns.p999_ns));
    } catch (const std::exception &wrong) {  // out_of_memory says who holds what
        std::fprintf(stderr, "train: %s\n", wrong.what());
        return 1;
    }
    return 0;
}
