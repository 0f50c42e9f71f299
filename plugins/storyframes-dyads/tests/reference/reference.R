# Reference values of storyframes-dyads, in R: Rscript reference.R series.csv values.csv
# Base R alone (values.csv is of R 4.2.2).
arguments <- commandArgs(trailingOnly = TRUE)
series <- read.csv(arguments[1])
x <- series$first
y <- series$second
window <- 40; stride <- 15; most <- 12; rate <- 10
values <- data.frame()
note <- function(name, value) {
  values <<- rbind(values, data.frame(name = name, number = seq_along(value) - 1, value = trimws(formatC(value, digits = 17))))
}

# Windowed lagged correlations of series with gaps: Pearson's r of the points that both have, at least half a window.
gaps_x <- replace(x, series$first_lost == 1, NA)
gaps_y <- replace(y, series$second_lost == 1, NA)
n <- length(x)
correlations <- c()
for (start in seq(1, n - window + 1, by = stride)) {
  for (lag in -most:most) {
    r <- NA
    begin <- start + lag
    if (begin >= 1 && begin + window - 1 <= n) {
      a <- gaps_x[start:(start + window - 1)]
      b <- gaps_y[begin:(begin + window - 1)]
      if (sum(!is.na(a) & !is.na(b)) >= window / 2) r <- cor(a, b, use = "pairwise.complete.obs")
    }
    correlations <- c(correlations, r)
  }
}
note("correlations", correlations)

# The lag of the highest cross-correlation: ccf(y, x) at k is of y at t + k and x at t, so above 0 the first leads.
all <- ccf(y, x, lag.max = most, plot = FALSE)
note("ccf_lag", all$lag[which.max(all$acf)])

# Fisher's z, averaged over windows with room for the largest lag, both directions (rMEA, Kleinbub and Ramseyer, 2021).
z <- c()
for (start in seq(1, n - window - most + 1, by = stride)) {
  for (lag in -most:most) {
    a <- x[(start + max(0, -lag)):(start + max(0, -lag) + window - 1)]
    b <- y[(start + max(0, lag)):(start + max(0, lag) + window - 1)]
    z <- c(z, atanh(cor(a, b)))
  }
}
note("average", mean(abs(z)))

# Magnitude-squared coherence by Welch's method: segments of a window, half overlapping, without their means.
hann <- 0.5 - 0.5 * cos(2 * pi * (0:(window - 1)) / window)
cross <- 0; power_x <- 0; power_y <- 0
for (start in seq(1, n - window + 1, by = window / 2)) {
  a <- x[start:(start + window - 1)]; b <- y[start:(start + window - 1)]
  fa <- fft((a - mean(a)) * hann); fb <- fft((b - mean(b)) * hann)
  cross <- cross + Conj(fa) * fb
  power_x <- power_x + Mod(fa)^2; power_y <- power_y + Mod(fb)^2
}
frequency <- (0:(window / 2)) * rate / window
inside <- which(frequency >= 2 * rate / window & frequency <= rate / 2)
note("coherence", mean((Mod(cross)^2 / (power_x * power_y))[inside]))

# Holm's correction, and the intervals of group comparisons.
note("holm", p.adjust(c(0.01, 0.04, 0.03, 0.005, 0.6), "holm"))
note("welch", t.test(x[1:9], y[1:7])$conf.int)
note("paired", t.test(x[1:9], y[1:9], paired = TRUE)$conf.int)
write.csv(values, arguments[2], row.names = FALSE, quote = FALSE)
